"""The API as its users see it, through OpenAI's own client, and field by field."""

import json

import openai
import pytest

from chat_model import EOS, ROWS, TOKENS, text_of
from serving import Server

USER = {"role": "user", "content": "Tell me about rings."}


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def model(client):
    return client.models.list().data[0].id


def collect(stream):
    """(text by choice, finish reasons, usage, chunks) of a streamed chat."""
    text, finish, usage, chunks = {}, {}, None, []
    for chunk in stream:
        chunks.append(chunk)
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text[choice.index] = text.get(choice.index, "") + (choice.delta.content or "")
            if choice.finish_reason:
                finish[choice.index] = choice.finish_reason
    return text, finish, usage, chunks


def test_models(client, server, model):
    assert model == "tinychat"
    assert client.models.retrieve(model).id == model
    with pytest.raises(openai.NotFoundError) as error:
        client.models.retrieve("other")
    assert error.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(model="gpt-4", messages=[USER])
    assert error.value.param == "model"


def test_chat_streamed_and_not_say_the_same(client, model):
    asked = dict(model=model, messages=[USER], temperature=0, max_tokens=24)
    whole = client.chat.completions.create(**asked)
    choice = whole.choices[0]
    assert whole.object == "chat.completion" and whole.id.startswith("chatcmpl-")
    assert choice.message.role == "assistant"
    assert whole.usage.completion_tokens == 24 and choice.finish_reason == "length"
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + 24
    assert whole.system_fingerprint.startswith("rk_")
    text, finish, usage, chunks = collect(client.chat.completions.create(
        **asked, stream=True, stream_options={"include_usage": True}))
    assert text == {0: choice.message.content} and finish == {0: "length"}
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(chunk.object == "chat.completion.chunk" for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].choices == [] and usage.completion_tokens == 24
    # The same prompt again: what was cached is told.
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_usage": None}])
def test_no_usage_in_the_stream_unless_asked_for(server, options):
    body = {"messages": [USER], "max_tokens": 2}
    if options is not None:
        body["stream_options"] = options
    events = server.stream("/v1/chat/completions", body)
    assert all("usage" not in event for event in events)
    assert all(event["choices"] for event in events)


def test_stream_options_without_a_stream(server):
    server.chat(USER, max_tokens=1, stream_options={"include_usage": True})


def test_completions_of_every_prompt_form(client, server, model):
    """A text, texts, ids, arrays of ids; results do not depend on the company."""
    ask = lambda prompt, **more: client.completions.create(model=model, prompt=prompt, temperature=0,
                                                           max_tokens=8, **more)
    ids = server.post("/tokenize", {"content": "One ring"}).json["tokens"]
    assert ids == [256, *b"One ring"]
    text = ask("One ring").choices[0].text
    assert ask(ids).choices[0].text == text
    both = ask(["One ring", "Two rings"]).choices
    assert [choice.index for choice in both] == [0, 1]
    assert both[0].text == text and both[1].text == ask("Two rings").choices[0].text
    assert [choice.text for choice in ask([ids, ids]).choices] == [text, text]
    echoed = ask("One ring", echo=True).choices[0].text
    assert echoed == "One ring" + text
    streamed = [choice.text for chunk in ask("One ring", stream=True, echo=True)
                for choice in chunk.choices]
    assert "".join(streamed) == echoed


def test_a_typed_bos_is_the_only_one(server):
    """Templates write BOS; a user may too. There is one."""
    for prompt in ("<bos>hi", "hi"):
        reply = server.complete(prompt, max_tokens=1, return_token_ids=True)
        assert reply["choices"][0]["prompt_token_ids"] == [256, *b"hi"]
    chat = server.chat(USER, max_tokens=1, return_token_ids=True)
    assert chat["choices"][0]["prompt_token_ids"].count(256) == 1


def test_bytes_of_a_character_are_never_torn(server):
    """Forced through four byte tokens, an emoji arrives whole, streamed or not; cut after two it
    ends in one replacement character. The log-probabilities have the bytes."""
    emoji = "😀".encode()
    prompt = "Smile: "

    def forced(tokens, **more):
        # One token a request: the bias is for the whole of it.
        text = prompt.encode()
        for token in tokens[:-1]:
            text += bytes([token])
        return text, {"logit_bias": {str(tokens[-1]): 100}, **more}

    reply = server.complete([256, *prompt.encode(), *emoji[:3]], max_tokens=1,
                            logit_bias={str(emoji[3]): 100}, logprobs=0)
    assert reply["choices"][0]["logprobs"]["tokens"] == ["bytes:\\x80"]
    # A grammar forces all four in one reply.
    for tokens, expected in ((8, "😀"), (2, "\ufffd")):
        body = {"prompt": prompt, "max_tokens": tokens, "guided_regex": "😀", "temperature": 0,
                "return_token_ids": True}
        whole = server.post("/v1/completions", body).json["choices"][0]
        assert whole["text"] == expected
        events = server.stream("/v1/completions", body)
        pieces = [choice["text"] for event in events for choice in event["choices"]]
        assert "".join(pieces) == expected and all(piece in ("", expected) for piece in pieces)
    chat = server.post("/v1/chat/completions",
                       {"messages": [USER], "guided_regex": "😀", "logprobs": True,
                        "top_logprobs": 2}).json["choices"][0]
    content = chat["logprobs"]["content"]
    assert bytes(byte for entry in content for byte in entry["bytes"]) == emoji
    assert all(len(entry["top_logprobs"]) == 2 for entry in content)


def test_random_bytes_are_valid_text_everywhere(server):
    """A random model writes any byte: the text is what a reference decoder makes of its tokens,
    streamed or not."""
    for seed in range(4):
        body = {"prompt": "x", "max_tokens": 60, "temperature": 1, "seed": seed,
                "return_token_ids": True}
        choice = server.post("/v1/completions", body).json["choices"][0]
        tokens = choice["token_ids"]
        if choice["finish_reason"] == "stop":
            tokens = tokens[:-1]
        assert choice["text"] == text_of(tokens)
        events = server.stream("/v1/completions", body)
        assert "".join(c["text"] for e in events for c in e["choices"]) == choice["text"]


def test_stop_strings(server):
    """A stop that spans tokens, one that begins like another: what stands before is all there and
    nothing of the stop is, streamed or not."""
    text = server.complete("Rings", max_tokens=60, ignore_eos=True)["choices"][0]["text"]
    assert len(text) > 30
    middle = text[12:17]
    for stop in (middle, [middle], [text[3:5] + "\x01\x01", middle], [middle + "\x01", middle]):
        expected = text[:min(text.find(s) for s in ([stop] if isinstance(stop, str) else stop)
                             if s in text)]
        fields = {"max_tokens": 60, "ignore_eos": True, "stop": stop}
        whole = server.complete("Rings", **fields)["choices"][0]
        assert (whole["text"], whole["finish_reason"]) == (expected, "stop")
        events = server.stream("/v1/completions", {"prompt": "Rings", "temperature": 0, **fields})
        pieces = [choice["text"] for event in events for choice in event["choices"]]
        assert "".join(pieces) == expected


def test_stop_tokens(server):
    tokens = server.complete("Rings", max_tokens=40, ignore_eos=True,
                             return_token_ids=True, temperature=1, seed=5)["choices"][0]["token_ids"]
    at = next(i for i in range(5, 40) if tokens[i] < TOKENS and tokens[i] not in tokens[:i])
    choice = server.complete("Rings", max_tokens=40, ignore_eos=True, return_token_ids=True, temperature=1, seed=5,
                             stop_token_ids=[tokens[at]])["choices"][0]
    assert choice["token_ids"] == tokens[:at + 1] and choice["finish_reason"] == "stop"
    assert choice["text"] == text_of(tokens[:at])


def test_n_replies_have_seeds_of_their_own(server):
    """Reply i is that of seed + i alone, whatever else is asked for at the same time."""
    fields = {"max_tokens": 12, "temperature": 1, "return_token_ids": True}
    together = server.complete("Seeds", n=3, seed=7, **fields)["choices"]
    assert [choice["index"] for choice in together] == [0, 1, 2]
    alone = [server.complete("Seeds", seed=7 + i, **fields)["choices"][0] for i in range(3)]
    tokens = lambda choices: [choice["token_ids"] for choice in choices]
    assert tokens(together) == tokens(alone)
    assert len({tuple(t) for t in tokens(together)}) == 3
    events = server.stream("/v1/chat/completions",
                           {"messages": [USER], "n": 2, "seed": 1, "max_tokens": 6})
    assert {c["index"] for e in events for c in e["choices"]} == {0, 1}
    # Without a seed two requests differ.
    a, b = (server.complete("Seeds", **fields, seed=None)["choices"][0] for _ in range(2))
    assert a["token_ids"] != b["token_ids"]


def test_usage_counts_a_shared_prompt_once(server):
    usage = server.complete("Shared prompt", n=3, max_tokens=4, temperature=1,
                            ignore_eos=True)["usage"]
    assert usage["prompt_tokens"] == 1 + len("Shared prompt")
    assert usage["completion_tokens"] == 12


def test_logprobs(server):
    """The log-probabilities are of the raw softmax: they sum to one, and neither temperature nor
    bias changes them."""
    choice = server.complete("Log", max_tokens=6, logprobs=20, ignore_eos=True)["choices"][0]
    plain = choice["logprobs"]
    assert len(plain["tokens"]) == len(plain["token_logprobs"]) == 6
    assert all(len(top) == 20 for top in plain["top_logprobs"])
    assert plain["text_offset"][0] == 0
    biased = server.complete("Log", max_tokens=1, logprobs=20, logit_bias={"33": 100})["choices"][0]
    assert biased["text"] == "!"
    assert biased["logprobs"]["top_logprobs"][0] == plain["top_logprobs"][0]
    chat = server.chat(USER, max_tokens=2, logprobs=True)["choices"][0]
    assert all(entry["top_logprobs"] == [] for entry in chat["logprobs"]["content"])


def test_echo_with_logprobs(server):
    """The prompt's tokens get the log-probabilities that they had when they were generated, whatever
    is cached, and offsets into the text."""
    made = server.complete("Log", max_tokens=9, logprobs=3, ignore_eos=True,
                           return_token_ids=True)["choices"][0]
    ids = made["prompt_token_ids"] + made["token_ids"]
    ask = {"prompt": ids, "echo": True, "logprobs": 3, "temperature": 0}
    whole = server.post("/v1/completions", {**ask, "max_tokens": 0}).json
    assert whole["usage"]["completion_tokens"] == 0
    scored = whole["choices"][0]["logprobs"]
    assert len(scored["tokens"]) == len(ids) == 13
    assert scored["token_logprobs"][0] is None and scored["top_logprobs"][0] is None
    for name in ("tokens", "token_logprobs", "top_logprobs"):
        assert scored[name][4:] == made["logprobs"][name]
    # A text: BOS is a token of its own that is no part of it.
    more = server.complete("Log it", echo=True, logprobs=0, max_tokens=2, ignore_eos=True)
    choice = more["choices"][0]
    assert choice["text"].startswith("Log it")
    assert choice["logprobs"]["tokens"][:3] == ["<bos>", "L", "o"]
    assert choice["logprobs"]["text_offset"][:8] == [0, 0, 1, 2, 3, 4, 5, 6]
    # Streamed, and for several replies to several prompts.
    body = {"prompt": ["Log it", "x"], "echo": True, "logprobs": 1, "max_tokens": 2, "n": 2,
            "seed": 5, "ignore_eos": True}
    for most in (2, 0):
        body["max_tokens"] = most
        wanted = server.post("/v1/completions", body).json["choices"]
        lists = [{"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
                 for _ in wanted]
        texts = [""] * 4
        for event in server.stream("/v1/completions", body):
            for piece in event["choices"]:
                texts[piece["index"]] += piece["text"]
                for name, values in (piece["logprobs"] or {}).items():
                    lists[piece["index"]][name] += values
        assert texts == [choice["text"] for choice in wanted]
        assert lists == [choice["logprobs"] for choice in wanted]
        assert [len(each["tokens"]) for each in lists] == [7 + most, 7 + most, 2 + most, 2 + most]
    assert wanted[0]["logprobs"] == wanted[1]["logprobs"]


def shown(ids):
    """Bytes of the tiny model's tokens as text, and the character that each token begins in."""
    data = bytes(token for token in ids if token < 256)
    text = data.decode("utf-8", errors="replace")
    return text, [len(data[:i + 1].decode("utf-8", errors="replace")) - 1 for i in range(len(data))]


@pytest.mark.parametrize("prompt", ["aé€", "😀x", "a\xffb", "\xe2\x82", "\xe2\x82\xe2", "\xff\xfe"])
def test_offsets_where_ids_end_inside_a_character(server, prompt):
    """Every prefix of a text's bytes: an offset is the place in `text` of the character that the
    token's first byte is part of; what is no character counts as the one that is shown for it."""
    data = prompt.encode("latin-1" if prompt.isascii() or max(prompt) < "\u0100" else "utf-8")
    for end in range(1, len(data) + 1):
        ids = list(data[:end])
        expected, places = shown(ids)
        for stream in (False, True):
            body = {"prompt": ids, "echo": True, "logprobs": 0, "max_tokens": 6, "temperature": 0,
                    "ignore_eos": True, "return_token_ids": True}
            if stream:
                pieces = [piece for event in server.stream("/v1/completions", body)
                          for piece in event["choices"]]
                text = "".join(piece["text"] for piece in pieces)
                offsets = [at for piece in pieces for at in (piece["logprobs"] or {}).get("text_offset", [])]
                tokens = [id for piece in pieces for id in piece.get("token_ids", [])]
            else:
                choice = server.post("/v1/completions", body).json["choices"][0]
                text, offsets = choice["text"], choice["logprobs"]["text_offset"]
                tokens = choice["token_ids"]
            assert text.startswith(expected), (text, expected)
            assert offsets[:end] == places, (ids, offsets, places)
            assert len(offsets) == end + 6
            assert offsets[end] == len(expected)
            assert offsets == sorted(offsets) and offsets[-1] <= len(text)
            reply, rest = shown(tokens)
            if all(token < 256 for token in tokens):
                assert text == expected + reply
                assert offsets[end:] == [len(expected) + at for at in rest]


def test_best_of(server):
    """Those with the highest mean log-probability, of the replies that n gives."""
    body = {"prompt": ["Best", "of"], "max_tokens": 7, "seed": 11, "temperature": 1.5}
    every = server.post("/v1/completions", {**body, "n": 6, "logprobs": 0}).json["choices"]
    mean = lambda c: sum(c["logprobs"]["token_logprobs"]) / len(c["logprobs"]["token_logprobs"])
    reply = server.post("/v1/completions", {**body, "n": 2, "best_of": 6}).json
    wanted = [c["text"] for first in (0, 6)
              for c in sorted(every[first:first + 6], key=mean, reverse=True)[:2]]
    assert [choice["text"] for choice in reply["choices"]] == wanted
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2, 3]
    assert all(choice["logprobs"] is None for choice in reply["choices"])
    assert reply["usage"]["completion_tokens"] > 4 * 7  # of all that were made
    server.refused("/v1/completions", {**body, "n": 3, "best_of": 2}, "best_of")
    server.refused("/v1/completions", {**body, "best_of": 2, "stream": True}, "best_of")
    server.refused("/v1/completions", {**body, "best_of": 100}, "best_of")


def test_repetition_penalty_sees_every_token(server):
    """A token at any distance in the prompt counts, also when the cache already holds the prompt or
    its window has moved on: the penalty is by history (case 7.2)."""
    token = ord("Q")
    for distance in (10, 20, 21, 25, 63, 64, 65, 300):
        prompt = [256, token, *b"." * (distance - 1)]
        ask = lambda penalty: server.complete(
            prompt, max_tokens=1, repetition_penalty=penalty, guided_regex="[QZ]",
            logit_bias={str(token): 22}, return_token_ids=True)["choices"][0]["token_ids"][0]
        assert ask(1) == token
        assert ask(100) == 90, distance  # 'Z', which is not in the history
        assert ask(100) == 90


def test_logit_bias_forces_and_bans(server):
    """As an object of strings and as a list of pairs."""
    for bias in ({"65": 100}, [[65, 100]], {"65": 100, "66": -100}):
        assert server.complete("x", max_tokens=3, logit_bias=bias)["choices"][0]["text"] == "AAA"
    first = server.complete("x", max_tokens=1, return_token_ids=True)["choices"][0]["token_ids"][0]
    other = server.complete("x", max_tokens=1, return_token_ids=True,
                            logit_bias={str(first): -100})["choices"][0]["token_ids"][0]
    assert other != first


@pytest.mark.parametrize("bias", [
    {"99999999": 5}, {"-1": 5}, {"abc": 5}, {"5": "x"}, {"5": 1e40}, {"5": None}, {"5": 101},
    [[5]], [[5, 1, 2]], ["5"], 3, {str(TOKENS): 5}, {str(ROWS - 1): 5}, [[-1, 2]], [[1.5, 2]],
    [[99999999, 5]], {"": 1}, {"5 ": 1}, {"5": 1, "05": 2}, [[5, 1], [6, 1], [5, 1]],
    [["5", 1], [5.0, 1]]])
def test_bad_logit_bias(server, bias):
    """Ids beyond the tokenizer are refused too, also where the embedding has rows for them."""
    error = server.refused("/v1/completions", {"prompt": "x", "max_tokens": 1, "logit_bias": bias})
    assert error["param"].startswith("logit_bias")


OPTIONAL = ["model", "stream", "stream_options", "n", "seed", "temperature", "top_p", "min_p", "top_k",
            "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "stop",
            "max_tokens", "max_completion_tokens", "logprobs", "top_logprobs", "response_format",
            "tools", "tool_choice", "user", "store", "metadata", "n_predict", "grammar", "functions",
            "parallel_tool_calls", "reasoning_effort", "modalities", "audio", "suffix", "echo"]


def test_null_is_the_default(server):
    server.chat(USER, **{**dict.fromkeys(OPTIONAL), "max_tokens": None, "n_predict": 3})
    for name in OPTIONAL:
        if name != "max_tokens":
            server.chat(USER, max_tokens=1, **{name: None})


@pytest.mark.parametrize("name, values", [
    ("max_tokens", [-2, 2**63, 1.5, "5", True, [], {}]),
    ("max_completion_tokens", [-2, "5", 1e300]),
    ("temperature", [-1, 101, "0", "NaN", True, [1]]),
    ("top_p", [-0.1, 1.1, "1"]),
    ("min_p", [-0.1, 1.1]),
    ("top_k", [-2, 1.5, "1", 2**40]),
    ("repetition_penalty", [0, -1, 1000]),
    ("presence_penalty", [-3, 3, "1"]),
    ("frequency_penalty", [-3, 3]),
    ("n", [0, -1, 1000, 1.5, "2"]),
    ("seed", ["1", 1.5, 2**70, []]),
    ("stop", [5, "", [""], ["a"] * 17, [5], {}, ["x" * 2000]]),
    ("stream", ["true", 1, 0]),
    ("stream_options", [5, "x", {"include_usage": 5}, {"other": True}]),
    ("logprobs", ["yes", 1]),
    ("top_logprobs", [-1, 21, "3"]),
    ("model", [5, [], True]),
    ("stop_token_ids", [5, ["5"], [-1], [TOKENS]]),
    ("tools", [5, {}, [5], [{"type": "x"}], [{"type": "function"}],
               [{"type": "function", "function": {"name": 5}}]]),
    ("tool_choice", ["auto", "required", 5]),  # without tools
    ("response_format", [5, "json", {}, {"type": "xml"}, {"type": "json_schema"},
                         {"type": "json_schema", "json_schema": {}}]),
    ("chat_template_kwargs", [5, [], {"messages": []}]),
])
def test_wrong_values_are_named(server, name, values):
    for value in values:
        error = server.refused("/v1/chat/completions", {"messages": [USER], name: value})
        assert error["param"].split(".")[0].split("[")[0] == name, (value, error)
        assert error["type"] == "invalid_request_error"


def test_top_logprobs_needs_logprobs(server):
    server.refused("/v1/chat/completions", {"messages": [USER], "top_logprobs": 2}, "top_logprobs")


def test_max_tokens(server):
    """0 is an empty reply; the two names of the same thing must agree; whole floats are whole."""
    reply = server.chat(USER, max_tokens=0)
    assert reply["choices"][0]["message"]["content"] == ""
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["completion_tokens"] == 0
    assert server.complete("x", max_tokens=0, echo=True)["choices"][0]["text"] == "x"
    assert server.chat(USER, max_completion_tokens=3, ignore_eos=True)["usage"]["completion_tokens"] == 3
    assert server.chat(USER, max_tokens=3.0, ignore_eos=True)["usage"]["completion_tokens"] == 3
    assert server.chat(USER, n_predict=3, ignore_eos=True)["usage"]["completion_tokens"] == 3
    assert server.complete("x", ignore_eos=True)["usage"]["completion_tokens"] == 16
    server.refused("/v1/chat/completions",
                   {"messages": [USER], "max_tokens": 3, "max_completion_tokens": 4}, "max_tokens")


@pytest.mark.parametrize("name, value", [
    ("foo", 1), ("Temperature", 1), ("prompt_logprobs", 1), ("best_of", 2), ("functions", []),
    ("function_call", "auto"), ("suffix", "x"), ("adapters", "x"), ("audio", {}),
    ("web_search_options", {}), ("repetition_context_size", 20), ("mirostat", 2),
    ("typical_p", 0.5), ("use_beam_search", True), ("chat_template", "x"), ("echo", True)])
def test_fields_that_are_not_served_are_named(server, name, value):
    server.refused("/v1/chat/completions", {"messages": [USER], name: value}, name)


def test_neutral_values_and_fields_without_effect(server):
    server.chat(USER, max_tokens=1, user="u", store=True, metadata={"a": "b"}, service_tier="auto",
                prompt_cache_key="k", mirostat=0, typical_p=1.0, dry_multiplier=0.0, repeat_last_n=-1,
                use_beam_search=False, xtc_probability=0, verbosity="low", modalities=["text"],
                parallel_tool_calls=True, cache_prompt=True)


def test_aliases_do_what_they_say(server):
    """Of llama.cpp, mlx-lm and vLLM."""
    ask = lambda **fields: server.complete("alias", max_tokens=8, ignore_eos=True, temperature=1,
                                           seed=3, return_token_ids=True,
                                           **fields)["choices"][0]["token_ids"]
    assert ask(repeat_penalty=1.8) == ask(repetition_penalty=1.8) != ask()
    assert ask(top_k=1) == ask(min_p=1) == server.complete(
        "alias", max_tokens=8, ignore_eos=True, return_token_ids=True)["choices"][0]["token_ids"]
    assert ask(top_k=-1) == ask(top_k=0) == ask()


def test_special_tokens_in_the_text(server):
    ask = lambda skip: server.complete("x", max_tokens=2, logit_bias={"260": 100},
                                       skip_special_tokens=skip)["choices"][0]["text"]
    assert ask(True) == "" and ask(False) == "<unused><unused>"


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


@pytest.mark.parametrize("prompt", [None, "", [], {}, 5, [[]], [5.5], [TOKENS], [-1], ["x", 5], [[1], "x"]])
def test_bad_prompts(server, prompt):
    error = server.refused("/v1/completions", {"prompt": prompt})
    assert error["param"].startswith("prompt")


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


def test_too_long_a_prompt(server):
    error = server.refused("/v1/completions", {"prompt": "x" * 3000})
    assert error["code"] == "context_length_exceeded" and error["param"] == "prompt"
    assert "2048" in error["message"] and "3001" in error["message"]
    error = server.refused("/v1/chat/completions", {"messages": [{"role": "user", "content": "x" * 3000}]})
    assert error["param"] == "messages"


@pytest.mark.parametrize("text", [
    "", "{", "nonsense", "[]", "5", '"x"', "null", '{"prompt": "x", "temperature": NaN}',
    '{"prompt": "x", "temperature": Infinity}', '{"prompt": "x", "temperature": -Infinity}',
    '{"prompt": "x", "top_p": 1e999}', '{"prompt": "x", "logit_bias": {"5": NaN}}',
    '{"prompt": "x", "prompt": "y"}', '{"prompt": "x", "a": {"b": 1, "b": 2}}',
    '{"prompt": ' + "[" * 5000 + "]" * 5000 + "}", '{"a":' * 5000, '{"prompt": "\\ud800"}',
    '{"prompt": "x"} trailing', '{"prompt": "x",}', "{'prompt': 'x'}", '{"prompt": "x" /* c */}'])
def test_bodies_that_are_no_json(server, text):
    error = server.refused("/v1/completions", text)
    assert error["code"] == "invalid_json"


def test_bodies_that_are_no_utf8(server):
    for body in (b'{"prompt": "\xff"}', b"\xff\xfe", b'{"\xc3(": 1}', b'{"prompt": "\xed\xa0\x80"}', b"\0"):
        assert server.refused("/v1/completions", body)["code"] == "invalid_json"


def test_tokenize_and_back(server):
    for text in ("Hello 😀", "", "<bos>x<|im_end|>", "a\u0000b"):
        tokens = server.post("/tokenize", {"content": text, "add_special": False}).json
        assert tokens["count"] == len(tokens["tokens"]) and tokens["max_model_len"] == 2048
        assert server.post("/detokenize", {"tokens": tokens["tokens"]}).json["content"] == text
    assert server.post("/tokenize", {"prompt": "x"}).json["tokens"] == [256, ord("x")]
    pieces = server.post("/tokenize", {"content": "😀", "with_pieces": True}).json["pieces"]
    assert [piece["piece"] for piece in pieces] == ["<bos>", [0xF0], [0x9F], [0x98], [0x80]]
    chat = server.post("/tokenize", {"messages": [USER]}).json["tokens"]
    assert chat == server.chat(USER, max_tokens=1, return_token_ids=True)["choices"][0]["prompt_token_ids"]
    server.refused("/detokenize", {"tokens": [TOKENS]}, "tokens[0]")
    server.refused("/tokenize", {"content": "x", "foo": 1}, "foo")
    for body in ({}, {"content": None}, {"content": "x", "messages": [USER]}, {"content": 5}):
        server.refused("/tokenize", body, "content")


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


def test_a_model_without_a_tokenizer(tiny):
    """Prompts of ids are served; what needs text is refused by its own name."""
    ids = {"prompt": [2, 5, 6], "max_tokens": 3}
    with Server(tiny.hf("llama3"), "--ctx", 64, "--threads", 1) as running:
        reply = running.post("/v1/completions", {**ids, "return_token_ids": True})
        assert reply.status == 200 and len(reply.json["choices"][0]["token_ids"]) == 3
        for field, value in (("logprobs", 1), ("stop", "x"), ("echo", True), ("prompt", "x"),
                             ("guided_regex", "a+")):
            reply = running.post("/v1/completions", {**ids, field: value})
            assert reply.status == 400 and reply.error["param"] == field, reply.body
        chat = running.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]})
        assert chat.status == 400 and chat.error["param"] == "messages"
