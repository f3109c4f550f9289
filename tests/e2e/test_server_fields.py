"""Field by field: what each does, and that a wrong one is refused by its name."""

import pytest

from chat_model import ROWS, TOKENS, USER


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
    ("documents", [5, "x", {}, [5], ["x"], [{}, None]]),
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


@pytest.mark.parametrize("prompt", [None, "", [], {}, 5, [[]], [5.5], [TOKENS], [-1], ["x", 5], [[1], "x"]])
def test_bad_prompts(server, prompt):
    error = server.refused("/v1/completions", {"prompt": prompt})
    assert error["param"].startswith("prompt")


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
