"""Mixtures of experts in less memory than their experts take (--expert-memory): the same bits from
the mapped file as from memory, and that plan, memory and counters agree."""

import http.client
import json
import math
import os
import resource
import subprocess
import time

import numpy as np
import pytest

import tiny_gguf
import tiny_moe
from make_tiny_model import make_tensors, write_hf, write_mlx
from ringkeep_cli import BINARY, fails, logits, ok, ok_json
from serving import Server
from test_moe import tokens_of
from test_serving_load import mixed_requests, same_together_as_alone
from tiny_specs import SPECS


def same_bits(found, expected):
    return (found.view(np.uint32) == expected.view(np.uint32)).all()


def least_memory(model, *flags):
    """Bytes of one expert, which the program names when it is given less."""
    return int(fails(2, "plan", model, *flags, "--expert-memory", 1, mentions=["--expert-memory"])
               .split("at least ")[1].split()[0])


@pytest.mark.parametrize("source", ["F32", "Q4_0", "MXFP4", "hf", "shards", "split", "mlx"])
@pytest.mark.parametrize("name", ["qwen2_moe", "gemma4_moe", "gpt_oss_truncate"])
def test_experts_from_the_file(name, source, tiny, tmp_path):
    """The same bits from a slot for one expert and from a few, prompts in any pieces and threads."""
    model = {"hf": lambda: tiny.hf(name), "shards": lambda: tiny.hf(name, 3),
             "split": lambda: tiny.gguf(name, "Q8_0", 3), "mlx": lambda: tiny.mlx(name, 4, 32),
             }.get(source, lambda: tiny.gguf(name, source))()
    tokens, one = tokens_of(name, 90), least_memory(model)
    expected = logits(model, tokens, tmp_path, "--kv-bits", "4", "--expert-memory", "all")
    for slots, chunk, threads in [(1, 64, 2), (1, 1, 1), (5, 64, 2), (11, 7, 1)]:
        found = logits(model, tokens, tmp_path, "--kv-bits", "4", "--chunk", chunk, "--threads", threads,
                       "--expert-memory", slots * one)
        assert same_bits(found, expected), (slots, chunk, threads)


def test_layers_of_several_types(tmp_path):
    """One after the other in the same slots: experts of 4 bits and of 8, and of 2 quantized here."""
    spec = SPECS["gpt_oss_truncate"]
    tensors = tiny_moe.stacked(spec.config, make_tensors(spec))
    module = lambda n: n.removesuffix(".weight")
    modes = {module(n): (4, 32, "mxfp4") for n in tensors if ".0.mlp.experts." in n and n.endswith(".weight")}
    modes |= {module(n): (4, 32) for n in tensors if ".1.mlp.experts.down" in n and n.endswith(".weight")}
    write_mlx(tmp_path / "mlx", tensors, spec.config, 8, 32, modes)
    write_hf(tmp_path / "hf", make_tensors(spec), spec.config)
    tokens = tokens_of(spec.name, 90)
    for model, flags in [("mlx", []), ("hf", ["--weight-bits", 2, "--weight-group", 32])]:
        expected = logits(tmp_path / model, tokens, tmp_path, *flags)
        for slots in (3, 9):
            found = logits(tmp_path / model, tokens, tmp_path, *flags, "--expert-memory",
                           slots * least_memory(tmp_path / model, *flags), "--chunk", 16)
            assert same_bits(found, expected), (model, slots)


@pytest.mark.parametrize("name,source", [("gpt_oss_truncate", "MXFP4"), ("gemma4_moe", "Q8_0")])
def test_experts_from_the_file_in_a_batch(name, source, tiny):
    """What each request gets alone with all experts in memory; a second time from the prefix cache."""
    model = tiny.gguf(name, source)
    bodies = mixed_requests(8, 96, [5, 70, 33, 130], 12, shared=40)
    one = least_memory(model)
    _, metrics = same_together_as_alone(model, ["--kv-bits", "4", "--ctx", 256], bodies, parallel=8,
                                        together_flags=["--expert-memory", 7 * one])
    assert metrics["ringkeep_prefix_hits_total"] > 0
    loads = metrics['ringkeep_experts_total{from="file"}']
    assert 0 < metrics["ringkeep_expert_bytes_loaded_total"] <= loads * one
    assert metrics["ringkeep_expert_memory_bytes"] == 7 * one


def test_what_is_held_is_not_read_again(tiny):
    """A token's 12 experts among 24 slots; with one slot, nothing is ever there."""
    model = tiny.gguf("gpt_oss_truncate", "MXFP4")
    one, shares = least_memory(model), {}
    for slots in (1, 24):
        with Server(model, "--ctx", 256, "--expert-memory", slots * one) as server:
            server.complete([2, 3, 4], max_tokens=30, ignore_eos=True)
            end = time.monotonic() + 10
            while server.metrics()["ringkeep_engine_steps_total"] < 30 and time.monotonic() < end:
                time.sleep(0.05)
            metrics = server.metrics()
        loads, hits = (metrics[f'ringkeep_experts_total{{from="{place}"}}'] for place in ("file", "memory"))
        shares[slots] = hits / (hits + loads)
    assert shares[1] == 0 and shares[24] > 0.3, shares


def test_a_model_whose_experts_are_held_tells_nothing_of_them(tiny):
    with Server(tiny.gguf("gpt_oss_truncate", "MXFP4"), "--ctx", 256) as server:
        server.complete([2, 3, 4], max_tokens=2)
        assert not [name for name in server.metrics() if "expert" in name]


def test_a_file_that_is_cut_short_is_named(tiny, tmp_path):
    """While it is served. What is in memory cannot go on without it."""
    model, log = tmp_path / "model.gguf", tmp_path / "log"
    model.write_bytes(tiny.gguf("gpt_oss_truncate", "MXFP4").read_bytes())
    with Server(model, "--ctx", 256, "--expert-memory", least_memory(model), log=log) as server:
        server.complete([2, 3, 4], max_tokens=2)
        os.truncate(model, 0)
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            server.complete([2, 5, 6], max_tokens=2)
        assert server.process.wait(30) == 4
    assert f"ringkeep: error: {model}: it can no longer be read" in log.read_text()


def expert_arrays(model):
    """(shape, bytes of an element) of the arrays of experts' matrices in a folder of one file."""
    with open(model / "model.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    sizes = {"U32": 4, "F16": 2, "BF16": 2, "F32": 4}
    return [(array["shape"], sizes[array["dtype"]]) for name, array in header.items()
            if any(part in name for part in (".switch_mlp.", ".switch_glu.", ".experts."))
            and not name.endswith("_proj.bias")]


@pytest.mark.parametrize("name", ["qwen2_moe", "gemma4_moe", "gpt_oss_truncate"])
def test_what_is_held_and_what_stays_in_the_file(name, tiny):
    """In plan, inspect and bench; and no more than was asked for."""
    model = tiny.gguf(name, "Q8_0")
    one = least_memory(model)
    totals = ok_json("plan", model, "--expert-memory", 5 * one + one // 2)["totals"]
    assert totals["expert_memory_bytes"] == 5 * one < totals["expert_bytes"]
    inspected = ok_json("inspect", model, "--expert-memory", 5 * one)
    assert inspected["experts"]["memory_bytes"] == 5 * one
    assert inspected["experts"]["expert_bytes"] == totals["expert_bytes"]
    in_file = [t for t in inspected["tensors"] if t["held_in"] == "file"]
    assert in_file and all("_exps.weight" in t["name"] for t in in_file)
    assert sum(t["bytes"] for t in in_file) == totals["mapped_bytes"]
    assert all(t["held_in"] == "memory" for t in ok_json("inspect", model)["tensors"])
    for text in (ok("plan", model, "--expert-memory", 5 * one), ok("inspect", model, "--expert-memory", one)):
        assert "mapped file" in text.decode()

    mlx = tiny.mlx(name, 4, 32)  # whose codes, scales and biases lie apart
    stored = sum(math.prod(shape) * size for shape, size in expert_arrays(mlx))
    assert ok_json("plan", mlx, "--expert-memory", least_memory(mlx))["totals"]["mapped_bytes"] == stored

    # As many slots as a step uses: nothing is there when its layer comes again.
    used = SPECS[name].config.get("num_experts_per_tok") or SPECS[name].config["top_k_experts"]
    row = lambda *flags: ok_json("bench", model, "-p", 8, "-n", 6, "-d", 0, "--codecs", "8", "-r", 1,
                                 *flags)["rows"][0]
    assert row("--expert-memory", used * one)["expert_loaded_bytes"] == row()["expert_bytes"]
    assert row()["expert_loaded_bytes"] == 0
    assert row("--expert-memory", totals["expert_bytes"] - 1)["expert_loaded_bytes"] < row()["expert_bytes"]


@pytest.mark.parametrize("wrong", ["1", "some", "-5", "0", "1e30", "", "99999999999999999999G"])
def test_impossible_values_are_refused(wrong, tiny, tmp_path):
    model = tiny.gguf("qwen2_moe", "Q8_0")
    for command in (["plan"], ["run", "--raw", "-p", "a"], ["inspect"], ["bench"],
                    ["logits", "--tokens", "2", "-o", tmp_path / "x.npy"]):
        fails(2, command[0], model, *command[1:], f"--expert-memory={wrong}", mentions=["--expert-memory"])


def test_a_model_without_experts_refuses_bytes_for_them(tiny, tmp_path):
    model = tiny.gguf("llama3", "F32")
    for command in (["plan"], ["run", "--raw", "-p", "a"], ["inspect"]):
        fails(2, command[0], model, *command[1:], "--expert-memory", "8G",
              mentions=["--expert-memory", "no experts"])
        ok("plan", model, "--expert-memory", "all")


def test_memory_is_bounded_where_experts_are_not_held(tmp_path):
    """Peak memory follows --expert-memory, and auto holds what the address space has room for."""
    spec = SPECS["qwen2_moe"]
    config = {**spec.config, "num_experts": 64, "moe_intermediate_size": 512,
              "mlp_only_layers": [], "num_hidden_layers": 3}
    big = type(spec)("big", config, 98)
    path = tmp_path / "big.gguf"
    tiny_gguf.write_gguf(path, big, make_tensors(big), "F32")
    totals = ok_json("plan", path)["totals"]
    experts, rest = totals["expert_bytes"], totals["weights_bytes"] - totals["expert_bytes"]
    flags = ["--raw", "-p", "a b c", "-n", 8, "--ctx", 128, "--chunk", 64, "--temp", 0]
    whole = ok_json("run", path, *flags)
    part = ok_json("run", path, *flags, "--expert-memory", "32M")
    assert part["tokens"] == whole["tokens"]
    portion = 16 << 20  # of the file, while it is packed
    assert experts > 230e6 and part["peak_rss_bytes"] < rest + (32 << 20) + portion + 64e6 < whole["peak_rss_bytes"]
    # The mapped file and the program take 400 MB of the address space; not all experts fit beside.
    limited = run_limited(path, path.stat().st_size + 500_000_000, *flags)
    assert json.loads(limited.stdout)["tokens"] == whole["tokens"]
    assert b"stay in the file" in limited.stderr


def run_limited(model, address_space, *flags):
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    return subprocess.run([str(a) for a in (BINARY, "run", model, "--json", "-t", 1, *flags)],
                          capture_output=True, preexec_fn=limit, timeout=120, check=True)
