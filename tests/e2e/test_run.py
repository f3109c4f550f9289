"""`run` and `tokenize` as a user sees them."""

import json
import re

import pytest

from ringkeep_cli import fails, ok, ok_json, run

PROMPT = "The Debian operating system is"
KEYS = {"text", "tokens", "finish_reason", "prompt_tokens", "cached_tokens", "prefill_tok_s",
        "decode_tok_s", "kv_bytes", "peak_rss_bytes"}


def generate(model, *flags, prompt=PROMPT):
    return ok_json("run", model, "--raw", "-p", prompt, *flags)


@pytest.fixture(scope="module")
def greedy(demo):
    """24 greedy tokens at 8 bits."""
    return generate(demo, "--temp", 0, "-n", 24, "--kv-bits", 8)


def test_json_keys(greedy):
    assert set(greedy) == KEYS
    assert greedy["finish_reason"] in ("stop", "length")
    assert greedy["prompt_tokens"] == 6  # BOS and five words
    assert greedy["kv_bytes"] > 0 and greedy["peak_rss_bytes"] > 200 << 20
    assert greedy["prefill_tok_s"] > 0 and greedy["decode_tok_s"] > 0


def test_greedy_text_does_not_depend_on_threads_or_chunks(demo, greedy):
    for flags in (("--threads", 1), ("--threads", 2), ("--chunk", 3)):
        again = generate(demo, "--temp", 0, "-n", 24, "--kv-bits", 8, *flags)
        assert (again["text"], again["tokens"]) == (greedy["text"], greedy["tokens"])


def test_loading_needs_little_more_than_the_packed_weights(demo):
    """Peak memory while loading, the whole process counted: at most a tenth above the weights."""
    log = run("run", demo, "-v", "--raw", "-p", "x", "-n", 1).stderr.decode()
    weights, peak = map(int, re.search(r"loaded: (\d+) .* memory (\d+) bytes", log).groups())
    assert weights == ok_json("plan", demo)["totals"]["weights_bytes"]
    assert weights < peak <= 1.1 * weights


def test_plain_output_is_the_same_text(demo, greedy):
    out = ok("run", demo, "--raw", "-p", PROMPT, "--temp", 0, "-n", 24, "--kv-bits", 8)
    assert out.decode() == greedy["text"] + "\n"


def test_prompt_by_file_and_stdin(demo, greedy, tmp_path):
    (tmp_path / "prompt.txt").write_text(PROMPT)
    flags = ("--raw", "--temp", 0, "-n", 24, "--kv-bits", 8)
    assert ok_json("run", demo, "-f", tmp_path / "prompt.txt", *flags)["text"] == greedy["text"]
    assert ok_json("run", demo, *flags, stdin=PROMPT.encode())["text"] == greedy["text"]


def test_a_seed_repeats_and_another_differs(demo):
    flags = ("--temp", 1, "-n", 24, "--top-k", 0, "--top-p", 1, "--min-p", 0)
    first, again, other = (generate(demo, *flags, "--seed", seed) for seed in (5, 5, 6))
    assert first["tokens"] == again["tokens"]
    assert first["tokens"] != other["tokens"]


def test_stop_strings(demo, greedy):
    """A stop that spans tokens, one inside a token, and two with a common prefix: the text before is
    whole, nothing of the stop appears."""
    text = greedy["text"]
    across = text[len(text) // 2 - 6:len(text) // 2 + 6]
    inside = text.split()[3][1:3]
    for stops in ([across], [inside], [across[:5] + "\x01", across]):
        at = min(text.find(s) for s in stops if s in text)
        flags = [flag for s in stops for flag in ("--stop", s)]
        found = generate(demo, "--temp", 0, "-n", 24, "--kv-bits", 8, *flags)
        assert found["text"] == text[:at]
        assert found["finish_reason"] == "stop"


def test_logit_bias_forces_and_bans(demo, greedy):
    first = greedy["tokens"][0]
    banned = generate(demo, "--temp", 0, "-n", 1, "--kv-bits", 8, "--logit-bias", f"{first}:-100")
    assert banned["tokens"][0] != first
    forced = generate(demo, "--temp", 0, "-n", 3, "--kv-bits", 8, "--logit-bias", "506:100")
    assert forced["tokens"] == [506] * 3


def test_characters_in_pieces_come_out_whole(demo):
    """A four-byte emoji forced byte by byte: UTF-8 stays valid however many of its bytes fit."""
    smile = [478, 397, 390, 366]  # byte tokens of F0 9F 98 80
    prompt = "\U0001F600\U0001F680" * 8
    result = generate(demo, "--temp", 0, "-n", 12, prompt=prompt)
    result["text"].encode()  # JSON cannot hold half a character; lone surrogates would fail here
    assert "\ufffd" not in result["text"][:-1]
    for count in (1, 2, 3, 4):
        # The bias makes one byte token certain; a run of lead bytes is never a character.
        cut = ok("run", demo, "--raw", "-p", "a", "--temp", 0, "-n", count, "--logit-bias",
                 f"{smile[0]}:100")
        cut.decode()  # raises on invalid UTF-8


def test_a_repetition_penalty_sees_the_whole_history(demo, greedy):
    """Prompt and output count, however far back."""
    plain = generate(demo, "--temp", 0, "-n", 60, "--ignore-eos")
    penal = generate(demo, "--temp", 0, "-n", 60, "--ignore-eos", "--repetition-penalty", "1.8")
    repeats = lambda r: len(r["tokens"]) - len(set(r["tokens"]))
    assert repeats(penal) < repeats(plain) / 2


@pytest.mark.parametrize("text", ["Hello world", "", "<bos>Hello", "  two  spaces\n\n\ttab",
                                  "caf\u00e9 \u4f60\u597d \U0001F600"])
def test_one_bos(text, demo):
    """Exactly one BOS, whether or not the user typed one; pieces join to the text again."""
    result = ok_json("tokenize", demo, "--text", text)
    assert result["tokens"][0] == 2 and 2 not in result["tokens"][1:]
    assert "".join(result["pieces"][1:]).replace("\u2581", " ") == text.removeprefix("<bos>")


def test_invalid_utf8_is_defined(demo):
    """Bytes that are no UTF-8 are encoded one way, and never end the program."""
    first = ok("tokenize", demo, "--json", stdin=b"a\xff\xfeb\xc3")
    assert json.loads(first)["tokens"][0] == 2
    assert ok("tokenize", demo, "--json", stdin=b"a\xff\xfeb\xc3") == first


def test_chat_templates_by_name(plain_model):
    """As in `serve`: the text that the template `plain` writes, and no name that there is not."""
    flags = ("-n", 8, "--temp", 0)
    chat = ok_json("run", plain_model, "--chat-template", "plain", "-p", "Hi", *flags)
    text = ok_json("run", plain_model, "--raw", "-p", "User: Hi\nAssistant:", *flags)
    assert (chat["prompt_tokens"], chat["tokens"]) == (text["prompt_tokens"], text["tokens"])
    fails(4, "run", plain_model, "--chat-template", "gema", "-p", "Hi", mentions=["gema", "chatml, gemma, llama3, plain"])


@pytest.mark.parametrize("bits", ["f16", "8", "4"])
def test_no_more_cache_is_used_than_is_planned(bits, tiny):
    """The line on stderr counts what a prompt needs while it is read on both sides."""
    model = tiny.gguf("gemma3_pattern6", "F32")
    flags = ("--raw", "-p", "a b c d e f " * 60, "-n", 2, "--ctx", 1024, "--kv-bits", bits)
    line = run("run", model, *flags).stderr.decode()
    sizes = re.search(r"cache ([\d.]+) (\w+) in use, ([\d.]+) (\w+) planned", line).groups()
    units = {"B": 1, "KiB": 2**10, "MiB": 2**20}
    used, planned = float(sizes[0]) * units[sizes[1]], float(sizes[2]) * units[sizes[3]]
    totals = ok_json("plan", model, "--ctx", 1024, "--kv-bits", bits)["totals"]
    assert used <= planned
    assert planned == pytest.approx(totals["kv_bytes"] + totals["kv_prefill_bytes"], rel=0.02)
