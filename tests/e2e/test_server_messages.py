"""Messages of a chat: their parts, what clients send back, what is refused, what the cache holds."""

import pytest

from chat_model import USER


def test_content_parts(server):
    """All parts count, in every role, joined by line breaks."""
    parts = [{"type": "text", "text": "AAA"}, {"type": "text", "text": "BBB"}]
    for role in ("user", "system", "developer", "assistant", "tool"):
        as_parts = server.chat({"role": role, "content": parts}, USER, max_tokens=1,
                               return_token_ids=True)
        as_text = server.chat({"role": role, "content": "AAA\nBBB"}, USER, max_tokens=1,
                              return_token_ids=True)
        key = lambda reply: reply["choices"][0]["prompt_token_ids"]
        assert key(as_parts) == key(as_text) and b"AAA\nBBB" in bytes(t for t in key(as_text) if t < 256)


@pytest.mark.parametrize("message, where", [
    (5, "messages[1]"),
    ({}, "messages[1].role"),
    ({"role": 5, "content": "x"}, "messages[1].role"),
    ({"role": "user"}, "messages[1].content"),
    ({"role": "user", "content": None}, "messages[1].content"),
    ({"role": "user", "content": 5}, "messages[1].content"),
    ({"role": "user", "content": []}, "messages[1].content"),
    ({"role": "user", "content": [5]}, "messages[1].content[0]"),
    ({"role": "user", "content": [{"type": "text"}]}, "messages[1].content[0].text"),
    ({"role": "user", "content": [{"type": "magic", "text": "x"}]}, "messages[1].content[0].type"),
    ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]},
     "messages[1].content[0].type"),
    ({"role": "user", "content": "x", "foo": 1}, "messages[1].foo"),
    ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]},
     "messages[1].tool_calls[0].function.arguments"),
    ({"role": "assistant", "tool_calls": [{"function": {}}]}, "messages[1].tool_calls[0].function.name"),
])
def test_bad_messages_are_named(server, message, where):
    server.refused("/v1/chat/completions", {"messages": [USER, message]}, where)


@pytest.mark.parametrize("messages", [None, [], {}, "hi", 5])
def test_no_messages(server, messages):
    server.refused("/v1/chat/completions", {"messages": messages}, "messages")
    server.refused("/v1/chat/completions", {}, "messages")


def test_markers_of_images_in_a_text_are_text(server):
    """No image is looked for: a model without one takes them as text, or as its tokenizer's tokens."""
    server.chat({"role": "user", "content": "<start_of_image> <image> <|im_start|>"}, max_tokens=1)


def test_history_with_tool_calls(server):
    """What a client sends back after a call, null fields included."""
    reply = server.chat(
        USER,
        {"role": "assistant", "content": None, "refusal": None, "audio": None, "function_call": None,
         "annotations": [],
         "tool_calls": [{"id": "c1", "type": "function",
                         "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        max_tokens=1, return_token_ids=True)
    prompt = bytes(t for t in reply["choices"][0]["prompt_token_ids"] if t < 256)
    assert b'{"name": "f", "arguments": {"a": 1}}' in prompt and b"42" in prompt


def test_replies_that_clients_send_back(server):
    """With what their libraries add to a message, and members that are empty."""
    more = {"parsed": {"a": 1}, "provider_specific_fields": {"b": [2]}, "thinking_blocks": None, "images": [], "x": {}}
    server.chat(USER, {"role": "assistant", "content": "x", **more},
                {"role": "user", "content": [{"type": "text", "text": "y", "annotations": []}]}, max_tokens=1)
    server.refused("/v1/chat/completions", {"messages": [USER, {"role": "assistant", "content": "x", "images": [1]}]},
                   "messages[1].images")


def test_arguments_that_a_model_wrote_can_be_sent_back(server):
    """As a reader takes them that goes on: the last of a key, U+FFFD for half a pair, deep ones."""
    def prompt(arguments):
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
        reply = server.chat(USER, {"role": "assistant", "tool_calls": [call]},
                            {"role": "tool", "tool_call_id": "c1", "content": "42"}, max_tokens=1, return_token_ids=True)
        return reply["choices"][0]["prompt_token_ids"]

    assert prompt('{"a": 1, "b": 3, "a": 2}') == prompt('{"a": 2, "b": 3}') != prompt('{"b": 3, "a": 2}')
    for half in (r"\ud83d", r"\uDE00", r"\ud83dx", r"\ud83d\n"):
        assert prompt(f'{{"a": "{half}"}}') == prompt(f'{{"a": "{half}"}}'.replace(half[:6], r"\ufffd")), half
    assert prompt(r'{"a": "\ud83d\ude00\\ud83d"}') == prompt('{"a": "\U0001F600\\\\ud83d"}')
    prompt('{"a": ' + "[" * 100 + "]" * 100 + "}")
    call = {"function": {"name": "f", "arguments": '{"a": ' + "[" * 200 + "]" * 200 + "}"}}
    server.refused("/v1/chat/completions", {"messages": [USER, {"role": "assistant", "tool_calls": [call]}]},
                   "messages[1].tool_calls[0].function.arguments")


def test_turns_reuse_the_cache(server):
    """The second turn goes on from the first one's end; the reply is that of a cold start."""
    first = [{"role": "system", "content": "Be brief. " * 8}, {"role": "user", "content": "One. " * 20}]
    said = server.chat(*first, max_tokens=5)
    second = [*first, {"role": "assistant", "content": said["choices"][0]["message"]["content"]},
              {"role": "user", "content": "And two?"}]
    ask = lambda reuse: server.chat(*second, max_tokens=8, cache_prompt=reuse, return_token_ids=True)
    warm, cold = ask(True), ask(False)
    cached = lambda reply: reply["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached(warm) >= said["usage"]["prompt_tokens"] - 1 and cached(cold) == 0
    assert warm["choices"][0]["token_ids"] == cold["choices"][0]["token_ids"]
    # Another conversation with the same system message begins behind it.
    other = server.chat(first[0], {"role": "user", "content": "Three?"}, max_tokens=1)
    assert cached(other) >= len("Be brief. " * 8)


def test_a_prompt_may_end_with_the_last_message(server):
    ask = lambda add: server.chat(USER, max_tokens=1, add_generation_prompt=add,
                                  return_token_ids=True)["choices"][0]["prompt_token_ids"]
    assert ask(True)[:len(ask(False))] == ask(False) and len(ask(True)) > len(ask(False))
