"""Text and tokens: no character is torn, where a reply ends, how many there are."""

from chat_model import TOKENS, USER, text_of
from serving import Server


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


def test_special_tokens_in_the_text(server):
    ask = lambda skip: server.complete("x", max_tokens=2, logit_bias={"260": 100},
                                       skip_special_tokens=skip)["choices"][0]["text"]
    assert ask(True) == "" and ask(False) == "<unused><unused>"


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
