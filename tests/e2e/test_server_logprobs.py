"""Log-probabilities: of replies, of prompts that are echoed, and the best of several by them."""

import pytest

from chat_model import USER


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
