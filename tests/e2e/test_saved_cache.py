"""Saved caches: going on from a file gives what an uninterrupted run gives, and nothing else passes."""

import json
import os
import pty
import re
import resource
import signal
import subprocess
import time

import pytest

from ringkeep_cli import BINARY, fails, ok, ok_json, run
from tiny_specs import WINDOW

TEXT = "the window of this model is short and the text is long so that it has moved many times "
REST = "then the text goes on"

CACHES = {
    "f16": (),
    "8": ("--kv-bits", "8"),
    "4": ("--kv-bits", "4"),
    "K6V3": ("--kv-bits", "K6V3"),
    "affine": ("--kv-bits", "affine4:32"),
    "kinds": ("--kv-bits", "full=4+sliding=8"),
    "bounded": ("--kv-bits", "4", "--max-kv-size", "70", "--keep", "8"),
    "before the start": ("--kv-bits", "4", "--quantized-kv-start", "2000"),
    "past the start": ("--kv-bits", "4", "--quantized-kv-start", "50"),
}


@pytest.fixture(scope="session")
def model(tiny):
    return tiny.gguf("gemma3_pattern6", "F32")


def generate(model, prompt, *flags, count=24):
    return ok_json("run", model, "--raw", "-p", prompt, "-n", count, "--temp", 0, "--ignore-eos",
                   *flags)


def count_tokens(model, text):
    return len(ok_json("tokenize", model, "--text", text)["tokens"])


@pytest.mark.parametrize("flags", CACHES.values(), ids=CACHES.keys())
def test_going_on_from_a_file(flags, model, tmp_path):
    """The prompt's beginning in one process, its end in another: the tokens of one that ran all."""
    file = tmp_path / "cache"
    ok("cache", "make", model, file, "-p", TEXT, *flags)
    saved = count_tokens(model, TEXT)
    assert saved > 2 * WINDOW
    whole = generate(model, TEXT + REST, *flags)
    assert whole["cached_tokens"] == 0
    before = file.read_bytes()
    again = generate(model, TEXT + REST, *flags, "--prompt-cache-file", file, "--prompt-cache-ro")
    assert again["cached_tokens"] == saved
    assert again["prompt_tokens"] == whole["prompt_tokens"]
    assert again["tokens"] == whole["tokens"]
    assert file.read_bytes() == before
    # Written back by a run: the reply is in it too.
    generate(model, TEXT + REST, *flags, "--prompt-cache", file)
    held = ok_json("cache", "inspect", file, "--tokens")
    assert held["tokens"] == whole["prompt_tokens"] + len(whole["tokens"]) - 1
    assert held["token_ids"][-len(whole["tokens"]) + 1:] == whole["tokens"][:-1]
    assert "right" in ok("cache", "check", file).decode()
    ok("cache", "check", file, "--model", model, *flags)


def test_a_file_is_made_by_the_first_run(model, tmp_path):
    """--prompt-cache-file names no file yet: the run makes it; the same prompt then starts from it
    or, where the window has moved on, says that it could not."""
    file = tmp_path / "cache"
    first = generate(model, TEXT, "--prompt-cache-file", file)
    assert sorted(os.listdir(tmp_path)) == ["cache"]
    second = run("run", model, "--raw", "-p", TEXT, "-n", 24, "--temp", 0, "--ignore-eos",
                 "--prompt-cache-file", file, "--json")
    assert json.loads(second.stdout)["tokens"] == first["tokens"]
    assert json.loads(second.stdout)["cached_tokens"] == 0
    assert "reused 0 of" in second.stderr.decode()
    fails(4, "run", model, "-p", TEXT, "--prompt-cache", tmp_path / "none", "--prompt-cache-ro",
          mentions=["none"])


def test_an_unwrapped_cache_serves_any_prefix(tiny, tmp_path):
    """Full layers hold all rows: the common part is reused, wherever the prompts part."""
    model, file = tiny.gguf("llama3", "F32"), tmp_path / "cache"
    ok("cache", "make", model, file, "-p", TEXT, "--kv-bits", "4")
    other = TEXT[:40] + "no, another text"
    cold = generate(model, other, "--kv-bits", "4")
    warm = generate(model, other, "--kv-bits", "4", "--prompt-cache", file, "--prompt-cache-ro")
    assert warm["tokens"] == cold["tokens"]
    assert warm["cached_tokens"] >= count_tokens(model, TEXT[:40]) - 2


@pytest.mark.parametrize("made,flags,field", [
    (("--kv-bits", "4"), ("--kv-bits", "8"), "codec of K"),
    (("--kv-bits", "4"), ("--kv-bits", "K4V3"), "codec of V"),
    ((), ("--max-kv-size", "90"), "max_kv_size"),
    (("--max-kv-size", "100"), ("--max-kv-size", "100", "--keep", "4"), "keep"),
    (("--kv-bits", "4"), ("--kv-bits", "4", "--quantized-kv-start", "60"), "quantized_kv_start"),
    (("--kv-bits", "4"), (), "codec of K"),  # and not the balance that comes with it
    ((), ("--exact",), "activations"),
    ((), ("--weight-bits", "4"), "weights"),
    ((), ("--kv-bits", "4"), "codec of K (--kv-bits)"),
    (("--kv-bits", "8"), (), "codec of K (--kv-bits)"),
])
def test_other_settings_are_refused(made, flags, field, model, tmp_path):
    """A cache made under other flags: exit 3, and the message names what differs."""
    file = tmp_path / "cache"
    ok("cache", "make", model, file, "-p", TEXT, *made)
    fails(3, "run", model, "-p", TEXT + REST, *flags, "--prompt-cache-file", file,
          mentions=[file, field, "this run has", "the file has"])


def test_a_prompt_that_ends_before_the_saved_tokens(model, tmp_path):
    flags = ("--raw", "-p", TEXT, "-n", 4, "--temp", 0, "--ignore-eos", "--prompt-cache-file", tmp_path / "cache")
    ok("run", model, *flags)
    stderr = run("run", model, *flags).stderr.decode()
    assert f"the prompt ends after {count_tokens(model, TEXT)} tokens" in stderr


def test_a_cache_is_no_model(model, tmp_path):
    ok("cache", "make", model, tmp_path / "talk.cache", "-p", TEXT)
    fails(4, "inspect", tmp_path / "talk.cache", mentions=["talk.cache: a saved cache", "ringkeep cache inspect"])


def test_other_models_are_refused(model, tiny, tmp_path):
    file = tmp_path / "cache"
    ok("cache", "make", model, file, "-p", TEXT)
    fails(3, "run", tiny.gguf("gemma3_pattern6", "Q8_0"), "-p", TEXT, "--prompt-cache", file,
          mentions=["model", "this run has"])
    fails(3, "cache", "check", file, "--model", tiny.gguf("llama3", "F32"), mentions=["model"])
    fails(3, "run", model, "-p", TEXT, "--ctx", 40, "--prompt-cache", file, mentions=["--ctx"])
    fails(3, "run", model, "-p", TEXT, "--prefix-cache-bytes", "1000", "--prompt-cache", file,
          mentions=["--prefix-cache-bytes"])


def test_where_a_cache_cannot_be_written(model, tmp_path):
    """Said before the work where it is known before it; otherwise the reply is there all the same."""
    (tmp_path / "folder").mkdir()
    for target, words in ((tmp_path / "folder", "found a folder"), (tmp_path / "no/cache", tmp_path / "no"),
                          ("/dev/null", "found a device")):
        error = fails(1, "run", model, "-p", TEXT, "-n", 4, "--prompt-cache-file", target,
                      mentions=[target, words])
        assert "tok/s" not in error  # nothing was run
        fails(1, "cache", "make", model, target, "-p", TEXT, mentions=[target, words])
    (tmp_path / "link").symlink_to("folder/cache")
    for _ in range(2):
        ok("run", model, "-p", TEXT, "-n", 4, "--prompt-cache-file", tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        ok("cache", "check", tmp_path / "folder/cache")
    late = tmp_path / "late"
    late.mkdir()
    process = subprocess.Popen(
        [BINARY, "run", str(model), "--raw", "-p", TEXT, "-n", "100000", "--max-kv-size", "100",
         "--ignore-eos", "--prompt-cache-file", str(late / "cache")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(20)
    late.rmdir()
    process.send_signal(signal.SIGINT)
    text, stderr = process.communicate(timeout=60)
    assert process.returncode == 1 and len(text) > 0
    error = stderr.decode()
    assert f"{late}/cache: cannot write a file in the folder {late}:" in error, error
    assert "the reply is whole" in error


def test_a_file_that_may_not_grow(model, tmp_path):
    """`ulimit -f`: an error that names the file, where the system would end the process."""
    for command in (["run", model, "-p", TEXT, "-n", "4", "--prompt-cache-file"], ["cache", "make", model]):
        file = tmp_path / "small"
        arguments = [*command, file] if command[0] == "run" else [*command, file, "-p", TEXT]
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        result = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, preexec_fn=limit, timeout=60)
        assert result.returncode == 1 and str(file) in result.stderr.decode(), result
        assert not file.exists()


def test_damaged_files(model, tmp_path):
    """Cut short anywhere or with one bit changed anywhere: exit 4, never a crash."""
    file, bad = tmp_path / "cache", tmp_path / "bad"
    ok("cache", "make", model, file, "-p", TEXT, "--kv-bits", "4")
    data = file.read_bytes()
    header = 8 + int.from_bytes(data[:8], "little")
    for size in (0, 7, 8, 100, header - 1, header, header + 5, len(data) // 2, len(data) - 1):
        bad.write_bytes(data[:size])
        fails(4, "cache", "check", bad, mentions=[bad])
    bad.write_bytes(data + b"x")
    fails(4, "cache", "check", bad, mentions=[bad])
    for at in (3, 9, 200, header // 2, header - 60, header, header + 1, (header + len(data)) // 2,
               len(data) - 1):
        changed = bytearray(data)
        changed[at] ^= 4
        bad.write_bytes(changed)
        fails(4, "cache", "check", bad, mentions=[bad])
    fails(4, "run", model, "-p", TEXT, "--kv-bits", "4", "--prompt-cache-file", bad,
          mentions=["SHA-256"])
    later = data.replace(b'"ringkeep_cache":"1"', b'"ringkeep_cache":"9"')
    bad.write_bytes(later)
    fails(4, "cache", "inspect", bad, mentions=["version 9"])


def test_ctrl_c_leaves_a_whole_file(model, tmp_path):
    """Interrupted while it generates: exit 130, and what is there is complete."""
    file = tmp_path / "cache"
    process = subprocess.Popen(
        [BINARY, "run", str(model), "--raw", "-p", TEXT, "-n", "100000", "--max-kv-size", "100",
         "--ignore-eos", "--prompt-cache-file", str(file)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(20)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert os.listdir(tmp_path) == ["cache"]
    ok("cache", "check", file)


def test_a_killed_process_leaves_the_old_file(model, tmp_path):
    """SIGKILL at any moment of a run that saves: the file is the old one or the new one."""
    file = tmp_path / "cache"
    ok("cache", "make", model, file, "-p", TEXT)
    for delay in (0.02, 0.05, 0.1, 0.2):
        process = subprocess.Popen(
            [BINARY, "run", str(model), "--raw", "-p", TEXT + REST, "-n", "5", "--prompt-cache-file",
             str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.kill()
        process.wait()
        ok("cache", "check", file)


def test_demo_model(demo, tmp_path):
    """The demo model past its window of 512, at 4 bits."""
    sentence = "The quick brown fox jumps over the lazy dog. "
    file, flags = tmp_path / "cache", ("--kv-bits", "4", "--ctx", "1024")
    ok("cache", "make", demo, file, "-p", sentence * 60 + "The", *flags)
    prompt = sentence * 61
    cold = generate(demo, prompt, *flags, count=16)
    warm = generate(demo, prompt, *flags, "--prompt-cache", file, "--prompt-cache-ro", count=16)
    assert warm["tokens"] == cold["tokens"]
    assert 512 < warm["cached_tokens"] < warm["prompt_tokens"]


def test_plan_counts_the_prefix_cache(model):
    totals = ok_json("plan", model, "--prefix-cache-bytes", "3M")["totals"]
    assert totals["prefix_cache_bytes"] == 3 << 20
    totals = ok_json("plan", model, "--prefix-cache-bytes", "-1")["totals"]
    assert totals["prefix_cache_bytes"] == totals["kv_bytes"]
    assert ok_json("plan", model)["totals"]["prefix_cache_bytes"] == 0
    fails(2, "plan", model, "--prefix-cache-bytes", "-5", mentions=["--prefix-cache-bytes"])


def test_a_chat_goes_on_from_its_turns(model, tmp_path):
    """On a terminal the second turn reuses the first, and /exit saves the talk."""
    template, file = tmp_path / "turns.jinja", tmp_path / "talk"
    template.write_text("{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}")
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [BINARY, "run", str(model), "--chat-template", str(template), "-n", "8", "--temp", "0",
         "--prompt-cache-file", str(file)],
        stdin=end, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.write(terminal, f"{TEXT}\n{REST}\n/exit\n".encode())
    _, stderr = process.communicate(timeout=120)
    os.close(terminal), os.close(end)
    assert process.returncode == 0, stderr
    first, second = [line for line in stderr.decode().splitlines() if line.startswith("prompt ")]
    assert "cached" not in first
    prompt, cached = map(int, re.match(r"prompt (\d+) tokens \((\d+) cached\)", second).groups())
    assert int(first.split()[1]) - 1 <= cached < prompt
    assert ok_json("cache", "inspect", file)["tokens"] >= prompt
