"""`convert` that was stopped goes on: after a kill, an interrupt, a full disk, byte for byte."""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from converting import convert, hashes
from make_tiny_model import write_hf
from ringkeep_cli import BINARY, fails, run
from tiny_specs import SPECS


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A checkpoint that takes some seconds: (folder, how it is converted whole)."""
    folder = tmp_path_factory.mktemp("large")
    config = {**SPECS["llama_yarn"].config, "hidden_size": 512, "intermediate_size": 2048,
              "num_hidden_layers": 6, "torch_dtype": "float16", "tie_word_embeddings": False}
    rng = np.random.default_rng(1)
    shapes = {"self_attn.q_proj": (320, 512), "self_attn.k_proj": (160, 512),
              "self_attn.v_proj": (160, 512), "self_attn.o_proj": (512, 320),
              "mlp.gate_proj": (2048, 512), "mlp.up_proj": (2048, 512), "mlp.down_proj": (512, 2048)}
    tensors = {f"model.layers.{i}.{n}.weight": rng.normal(size=s).astype(np.float16)
               for i in range(6) for n, s in shapes.items()}
    for i in range(6):
        for n in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{i}.{n}.weight"] = np.ones(512, np.float16)
    tensors["model.norm.weight"] = np.ones(512, np.float16)
    tensors["model.embed_tokens.weight"] = rng.normal(size=(96, 512)).astype(np.float16)
    tensors["lm_head.weight"] = rng.normal(size=(96, 512)).astype(np.float16)
    write_hf(folder / "source", tensors, config, shards=2)
    flags = ["--shard-size", "1M", "--threads", "1"]
    convert(folder / "source", folder / "whole", *flags)
    return folder / "source", folder / "whole", flags


def killed(source, out, flags, shards):
    """kill -9 once `shards` of them are recorded."""
    process = subprocess.Popen([BINARY, "convert", str(source), str(out), *map(str, flags)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    state = pathlib.Path(f"{out}.converting") / "state.json"
    until = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < until:
        if state.exists() and len(json.loads(state.read_text())["shards"]) >= shards:
            break
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it was through before it could be killed"
    assert not out.exists()
    return pathlib.Path(f"{out}.converting")


def test_goes_on_after_a_kill(large, tmp_path):
    """Byte for byte what an uninterrupted run makes; a damaged shard is made again."""
    source, whole, flags = large
    out = tmp_path / "out"
    space = killed(source, out, flags, 3)
    done = sorted(json.loads((space / "state.json").read_text())["shards"])
    damaged = space / "model" / done[1]
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    (space / "model" / "stray.partial").write_text("left by the kill")
    result = run("convert", source, out, *flags, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["resumed_shards"] == len(done) - 1
    assert f"{damaged}: written again".encode() in result.stderr
    assert hashes(out) == hashes(whole)
    assert not space.exists()


def test_goes_on_only_with_the_same_options(large, tmp_path):
    source, whole, flags = large
    out = tmp_path / "out"
    space = killed(source, out, flags, 2)
    for more, mentions in [
            (["--bits", 3], ["--bits 4", "now it is 3"]), (["--group", 32], ["--group"]),
            (["--override", "q_proj=8"], ["--override none"]), (["--dtype", "f32"], ["--dtype"]),
            (["--rounding", "min-max"], ["--rounding"]), (["--shard-size", "2M"], ["--shard-size"])]:
        changed = [f for f in flags if more[0] != "--shard-size" or f not in ("--shard-size", "1M")]
        fails(2, "convert", source, out, *changed, *more, mentions=[space, "--restart", *mentions])
    other = tmp_path / "other"
    shutil.copytree(source, other)
    os.utime(other / "model-00002-of-00002.safetensors", (1, 1))
    fails(2, "convert", other, out, *flags, mentions=["model-00002-of-00002", "time 1.0"])
    before = json.loads((space / "state.json").read_text())["shards"]
    assert len(before) >= 2
    report = convert(source, out, *flags, "--restart")
    assert report["resumed_shards"] == 0
    assert hashes(out) == hashes(whole)


def test_interrupt_leaves_what_is_done(large, tmp_path):
    source, whole, flags = large
    out = tmp_path / "out"
    process = subprocess.Popen([BINARY, "convert", str(source), str(out), *flags],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    space = pathlib.Path(f"{out}.converting")
    while process.poll() is None and not list(space.glob("model/*.safetensors")):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and b"goes on with" in stderr
    assert convert(source, out, *flags)["resumed_shards"] >= 1
    assert hashes(out) == hashes(whole)


def test_a_full_disk_is_told_and_got_over(large, tmp_path):
    """A limit on the size of files stands for the disk; the second run has more room."""
    source, whole, flags = large
    out = tmp_path / "out"

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))

    result = subprocess.run([BINARY, "convert", str(source), str(out), *flags],
                            capture_output=True, preexec_fn=limit)
    assert result.returncode == 1, result.stderr
    assert b"model-000" in result.stderr and b"cannot write: File too large" in result.stderr
    assert not out.exists()
    convert(source, out, *flags)
    assert hashes(out) == hashes(whole)


def test_one_at_a_time(large, tmp_path):
    import fcntl

    source, _, flags = large
    space = tmp_path / "out.converting"
    space.mkdir()
    fd = os.open(space, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    fails(1, "convert", source, tmp_path / "out", *flags, mentions=["another process"])
    os.close(fd)


def test_calibration_is_part_of_what_was_asked(large, tiny, tmp_path):
    """Another text, or none, does not go on with what was begun; the same does, byte for byte."""
    source, _, flags = large
    ids, out, whole = tmp_path / "ids.txt", tmp_path / "out", tmp_path / "whole"
    ids.write_text("2,5,7,11,13")
    more = ["--calibration-ids", ids]
    killed(source, out, [*flags, *more], 2)
    fails(2, "convert", source, out, *flags, mentions=["--calibration sha256", "now it is none"])
    assert convert(source, out, *flags, *more)["resumed_shards"] >= 2
    convert(source, whole, *flags, *more)
    assert hashes(out) == hashes(whole)
    fails(2, "convert", source, tmp_path / "x", *more, "--rounding", "min-max",
          mentions=["--calibration", "search"])
    ids.write_text("2,500")
    fails(2, "convert", source, tmp_path / "x", *more, mentions=["500", "vocabulary"])
    fails(4, "convert", source, tmp_path / "y", "--calibration", ids, mentions=["no tokenizer"])
