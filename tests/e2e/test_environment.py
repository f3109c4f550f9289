"""A clumsy or hostile surrounding: odd files, streams that are closed or full, signals, no HOME, few
resources. Always a defined exit code and one line that says why; never a hang."""

import json
import os
import resource
import signal
import subprocess
import time

import numpy as np
import pytest

from ringkeep_cli import BINARY, fails, ok, ok_json, run


@pytest.fixture(scope="module")
def model(tiny):
    return tiny.gguf("llama3", "F32")


def shell(script, **options):
    return subprocess.run(["bash", "-c", script], capture_output=True, timeout=60, **options)


def test_models_that_are_no_files(tmp_path):
    """A pipe without a writer, links to nowhere and to themselves, devices: refused at once."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "config.json")
    for name in ("fifo", "dangling", "loop", "folder"):
        fails(4, "plan", tmp_path / name, mentions=[name], timeout=10)
    for device in ("/dev/zero", "/dev/null"):
        fails(4, "inspect", device, mentions=[device], timeout=10)


def test_prompts_from_pipes(model, tmp_path):
    """-f takes whatever can be read: a file, a pipe, /dev/stdin; not a folder, not without end."""
    (tmp_path / "prompt").write_text("hello")
    flags = ("--raw", "-n", 5, "--temp", 0)
    text = ok_json("run", model, "-f", tmp_path / "prompt", *flags)["text"]
    assert ok_json("run", model, "-f", "/dev/stdin", *flags, stdin=b"hello")["text"] == text
    piped = shell(f"'{BINARY}' run '{model}' --json -f <(printf hello) --raw -n 5 --temp 0")
    assert json.loads(piped.stdout)["text"] == text
    fails(4, "run", model, "-f", tmp_path, mentions=["directory"])
    fails(4, "run", model, "-f", "/dev/zero", mentions=["/dev/zero", 1 << 28])


def test_no_tokens_is_not_a_text(model, tmp_path):
    fails(2, "logits", model, "--tokens", "", "-o", tmp_path / "x", mentions=["no tokens"])


@pytest.mark.parametrize("arguments", [
    ["--ctx=9223372036854775808"], ["--ctx=0x40"], ["--ctx=1e3"], ["--ctx="], ["--chunk=0"],
    ["--keep=1.0"], ["--max-kv-size=99999999999999999999"], ["--seed=-1"],
    ["--seed=18446744073709551616"], ["--threads=4294967297"], ["--top-k=nan"],
    ["--max-tokens=9223372036854775808"]], ids=" ".join)
def test_whole_numbers_are_taken_as_written_or_not_at_all(arguments, model):
    """No wrapping, no nearest limit, no other base."""
    fails(2, "run", model, "-p", "a", *arguments, mentions=[arguments[0].split("=")[0]])


def test_decimal_whatever_it_looks_like(model):
    assert ok_json("plan", model, "--ctx=0100") == ok_json("plan", model, "--ctx=100")


def test_more_threads_than_the_system_gives(model):
    """An error that says how many there were, not a wait for threads that never began."""
    limits = lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    result = subprocess.run([BINARY, "run", model, "-p", "a", "-n", "1", "--threads", "1024"],
                            capture_output=True, timeout=60, preexec_fn=limits)
    assert result.returncode == 1
    assert b"--threads 1024" in result.stderr


def test_little_memory(model):
    """However little the process may have: it works, or says in words that it has too little."""
    worked = 0
    for mib in [*range(40, 200, 12), 300, 500]:
        limits = lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))
        result = subprocess.run([BINARY, "run", model, "-p", "a", "-n", "4", "--threads", "1"],
                                capture_output=True, timeout=60, preexec_fn=limits)
        if b"loading shared libraries" in result.stderr:
            continue  # the program never began
        assert result.returncode in (0, 1, 4), (mib, result.returncode, result.stderr)
        assert b"bad_alloc" not in result.stderr, (mib, result.stderr)
        if result.returncode != 0:
            errors = [line for line in result.stderr.splitlines() if b"error:" in line]
            assert len(errors) == 1, (mib, result.stderr)
        worked += result.returncode == 0
    assert worked > 0


def test_full_disk(model):
    """Whatever the command prints: exit 1 and a word on standard output."""
    for arguments in ("--help", "--version", f"plan '{model}'", f"inspect '{model}'",
                      f"plan '{model}' --json", f"tokenize '{model}' --text abc",
                      f"run '{model}' -p abc -n 4", f"logits '{model}' --tokens 1,2 -o -"):
        result = shell(f"'{BINARY}' {arguments} >/dev/full")
        assert result.returncode == 1, (arguments, result.stderr)
        assert b"error: cannot write" in result.stderr


def test_generation_stops_when_nobody_reads(tmp_path, model):
    """A full disk, or a reader that has left, ends a long generation at its next piece of text."""
    endless = f"'{BINARY}' run '{model}' -p abc -n -1 --max-kv-size 64 --ignore-eos"
    assert shell(f"{endless} >/dev/full").returncode == 1
    shell(f"{endless} | head -c 20")  # returns: the program ended of the broken pipe


def test_closed_streams(model, tmp_path):
    """A file never takes the number of a closed stream, so that messages cannot end up in it; a
    stderr that cannot be written to changes neither result nor exit code."""
    out = tmp_path / "x.npy"
    logits = f"'{BINARY}' logits '{model}' --tokens 1,2 --ctx 9000 -o '{out}'"  # warns of the ctx
    for closed in ("2>&-", ">&-", "<&- >&- 2>&-", "2>/dev/full"):
        assert shell(f"{logits} {closed}").returncode == 0, closed
        assert np.load(out).shape[0] == 2
        assert out.stat().st_size == 128 + np.load(out).nbytes
    generate = f"'{BINARY}' run '{model}' -p abc -n 3 --temp 0"
    text = shell(generate).stdout
    for closed in ("2>&-", "2>/dev/full"):
        result = shell(f"{generate} {closed}")
        assert (result.returncode, result.stdout) == (0, text)
    assert shell(f"'{BINARY}' run '{model}' -n 3 <&-").returncode == 4
    assert shell(f"'{BINARY}' plan '{model}' >&-").returncode == 1
    assert shell(f"'{BINARY}' plan nowhere 2>/dev/full").returncode == 4


def test_home(demo, tmp_path):
    """Without HOME the account's own folder counts, never the current one; a HOME that is read-only or
    missing is only read."""
    decoy = tmp_path / ".cache" / "ringkeep"
    decoy.mkdir(parents=True)
    (decoy / demo.name).write_bytes(b"not a model")
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME")}
    result = subprocess.run([BINARY, "plan", "demo"], capture_output=True, cwd=tmp_path,
                            env=environment)
    assert b"not a" not in result.stderr and result.returncode in (0, 4)
    result = subprocess.run([BINARY, "plan", "demo"], capture_output=True,
                            env={**environment, "HOME": "/nonexistent"})
    assert result.returncode == 4 and b"/nonexistent/.cache" in result.stderr


def test_locale(model):
    """Numbers are read and written the same in every locale."""
    for locale in ("tr_TR.UTF-8", "de_DE.UTF-8", "C"):
        result = subprocess.run([BINARY, "run", model, "-p", "a", "-n", "2", "--temp", "0.5",
                                 "--json"], capture_output=True, env={**os.environ, "LC_ALL": locale})
        assert result.returncode == 0
        json.loads(result.stdout)


def test_two_at_once(model):
    """Two processes on one file."""
    command = [BINARY, "run", model, "-p", "abc", "-n", "200", "--temp", "0", "--json"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    texts = {json.loads(p.communicate(timeout=60)[0])["text"] for p in both}
    assert len(texts) == 1


def interrupted(command, once_written, folder, times=1):
    """Ctrl-C once `once_written` has something in it; the exit code and what was printed."""
    out = folder / "out"
    with open(out, "wb") as stdout:
        process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE)
        for _ in range(600):
            if (once_written or out).exists() and (once_written or out).stat().st_size > 0:
                break
            time.sleep(0.05)
        for _ in range(times):
            process.send_signal(signal.SIGINT)
        stderr = process.communicate(timeout=60)[1]
    return process.returncode, out.read_bytes(), stderr


def test_interrupt_while_decoding(model, tmp_path):
    """Exit 130 with the text so far; with --json still one whole object."""
    endless = [BINARY, "run", str(model), "-p", "abc", "-n", "-1", "--max-kv-size", "64",
               "--ignore-eos"]
    code, out, err = interrupted(endless, None, tmp_path)
    assert code == 130 and len(out) > 1 and b"generated" in err
    process = subprocess.Popen([*endless, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert not out or json.loads(out)["finish_reason"] == "interrupted"  # none: while loading


def test_interrupt_of_logits(model, tmp_path):
    """The run ends at the next step, and leaves no file, whole or partial."""
    tokens = tmp_path / "ids"
    tokens.write_text(",".join(["5"] * 200000))
    code, _, _ = interrupted(
        [BINARY, "logits", str(model), "--tokens-file", str(tokens), "--ctx", "200000", "--chunk",
         "64", "-o", str(tmp_path / "x.npy")], tmp_path / "x.npy.partial", tmp_path)
    assert code == 130
    assert not list(tmp_path.glob("x.npy*"))
