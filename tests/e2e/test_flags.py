"""Every option that takes a value, given what is none: exit 2, and a message that names the option."""

import re

import pytest

from chat_model import TOKENS as TOKENS_OF_CHAT
from ringkeep_cli import fails, ok, run

COMMANDS = ["plan", "run", "serve", "bench", "eval kv", "eval needle", "logits", "calibrate", "convert",
            "cache make", "cache check", "tokenize", "inspect"]
LISTS = ["", ",", "8,", ",8", "8,,4", "8, ,4"]
CODECS = ["", "x", "7", "08", "K8", "8V4", "KV", "affine4:", "affine:64", "full=8", "full=8+",
          "full=8+sliding=4+", "full=8+full=4+sliding=4", "full=+sliding=4", "9" * 30, "8,"]
NAMES = ["", "x", "8,4"]
BAD = {"N": [""], "X": [""], "BYTES": [""], "SECONDS": [""], "CODEC": CODECS,
       "BITS": ["", "x", "7", "08", "9" * 30], "N,...": LISTS, "CODEC,...": CODECS + LISTS,
       "ID:BIAS": ["", "5", "5:", ":5", "x:1", "-1:5", "5:nan", "5:1,6:1"],
       "A:B": ["", "5", "3:3", "4:3", "-1:3", "a:b", "1:2:3", "1:99"]}
# Of what has no type of its own.
NAMED = {"--kv-scheme": NAMES, "--kv-hot": CODECS + ["4"], "--tool-call-parser": NAMES,
         "--reasoning-parser": NAMES, "--log-format": NAMES, "--only": NAMES, "--dtype": NAMES,
         "--rounding": NAMES}
TOKENS = ["x", "5,,6", "5,", ",5", "5 , , 6", "1.5", "-1", "9" * 30]


def options(command):
    """(name, type) of the options in a command's help."""
    text = ok(*command.split(), "--help").decode()
    found = []
    for names, kind in re.findall(r"^  +((?:-[\w-]+,?)+) (\S+)", text, re.MULTILINE):
        name = next((each for each in names.split(",") if each.startswith("--")), None)
        if name:
            found.append((name, kind.split("=")[0].split(":{")[0]))
    return found


@pytest.fixture(scope="module")
def arguments(tiny, tmp_path_factory):
    model = tiny.gguf("llama3", "F32")
    text = tmp_path_factory.mktemp("flags") / "text.txt"
    text.write_text("abc " * 50)
    out, cache = text.parent / "out", text.parent / "cache"
    ok("cache", "make", model, cache, "-p", "a")
    return {"plan": [model], "run": [model, "-p", "a", "-n", 1], "serve": [model, "--port", 0],
            "bench": [model, "-p", 1, "-n", 1, "-r", 1, "-d", 0], "eval kv": [model, "--text", text],
            "eval needle": [model], "logits": [model, "--text", "a", "-o", out],
            "calibrate": [model, "--text", text, "-o", out],
            "convert": [tiny.hf("llama3"), text.parent / "to"],
            "cache make": [model, out, "-p", "a"], "cache check": [cache, "--model", model],
            "tokenize": [model, "--text", "a"], "inspect": [model]}


def test_the_help_is_read():
    kinds = {kind for command in COMMANDS for _, kind in options(command)}
    assert set(BAD) - {"A:B"} <= kinds, kinds


def refused(command, given, name, value):
    result = run(*command.split(), *given, f"{name}={value}", timeout=60)
    stderr = result.stderr.decode()
    assert result.returncode == 2, (command, name, value, result.returncode, stderr)
    lines = [line for line in stderr.splitlines() if "error:" in line]
    assert len(lines) == 1 and name in lines[0], (command, name, value, stderr)


@pytest.mark.parametrize("command", COMMANDS)
def test_values_that_are_none(command, arguments):
    for name, kind in options(command):
        for value in NAMED.get(name, BAD.get(kind, [])):
            refused(command, arguments[command], name, value)


def test_ids_that_are_none(arguments, tmp_path):
    model = arguments["logits"][0]
    for value in TOKENS:
        refused("logits", [model, "-o", tmp_path / "out"], "--tokens", value)
        (tmp_path / "ids").write_text(value)
        result = run("logits", model, "-o", tmp_path / "out", "--tokens-file", tmp_path / "ids")
        assert result.returncode == 2 and f"--tokens-file {tmp_path / 'ids'}".encode() in result.stderr


def test_a_bias_of_no_token_or_of_one_twice(chat_model):
    """Ids beyond the tokenizer are refused, as the server does, and two biases of one token."""
    ask = ["run", chat_model, "-p", "a", "-n", 1]
    fails(2, *ask, "--logit-bias", f"{TOKENS_OF_CHAT}:1", mentions=["--logit-bias", TOKENS_OF_CHAT - 1])
    fails(2, *ask, "--logit-bias", "5:1", "--logit-bias", "05:2", mentions=["--logit-bias", "token 5"])
    ok(*ask, "--logit-bias", f"{TOKENS_OF_CHAT - 1}:1", "--logit-bias", "5:1")
