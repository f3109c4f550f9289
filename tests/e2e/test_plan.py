"""`plan`: exact bytes without weights, or every refusal."""

import json
import re

import pytest

from ringkeep_cli import fails, ok, ok_json, run
from tiny_specs import SPECS

HYBRID_LAYERS = 12


def hybrid_config(folder):
    """A config.json in the style of Qwen3-Next: three linear-attention layers to a full one."""
    kinds = ["full_attention" if (i + 1) % 4 == 0 else "linear_attention"
             for i in range(HYBRID_LAYERS)]
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next",
        "hidden_size": 2048, "intermediate_size": 5120, "num_hidden_layers": HYBRID_LAYERS,
        "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
        "partial_rotary_factor": 0.25, "rope_theta": 10000000, "rope_scaling": None,
        "rms_norm_eps": 1e-6, "vocab_size": 151936, "tie_word_embeddings": False,
        "max_position_embeddings": 262144, "layer_types": kinds, "hidden_act": "silu",
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
        "linear_num_value_heads": 32, "linear_value_head_dim": 128, "num_experts": 512,
        "num_experts_per_tok": 10, "moe_intermediate_size": 512, "decoder_sparse_step": 1,
        "shared_expert_intermediate_size": 512, "attention_bias": False}))
    return folder, [i for i, kind in enumerate(kinds) if kind == "linear_attention"]


@pytest.mark.parametrize("flags", [
    ("--kv-bits", "8"), ("--kv-bits", "8", "--quantized-kv-start", "5000"), ("--kv-bits", "4"),
    ()])
def test_every_recurrent_layer_is_refused(flags, tmp_path):
    """All offending layers, each with index, cache class, feature and reason, before any weights;
    a later start of quantization hides none of them."""
    folder, linear = hybrid_config(tmp_path / "hybrid")
    result = run("plan", folder, "--json", *flags)
    assert result.returncode == 3, result.stderr
    plan = json.loads(result.stdout)
    assert plan["runnable"] is False
    assert [layer["index"] for layer in plan["layers"]] == list(range(HYBRID_LAYERS))
    assert [layer["index"] for layer in plan["layers"] if layer["kind"] == "recurrent"] == linear
    for index in linear:
        mine = [r for r in plan["refusals"] if r["layer"] == index]
        assert mine and all(r["cache"] and r["feature"] and r["reason"] for r in mine), index
        if flags:
            assert any(r["feature"] == "quantize" for r in mine), mine
    refused = {r["layer"] for r in plan["refusals"] if r["layer"] is not None}
    assert refused == set(linear), "a layer that can be cached is refused"

    text = run("plan", folder, *flags)
    assert text.returncode == 3
    shown = (text.stdout + text.stderr).decode()
    for index in linear:
        assert any(f"layer {index}" in line or line.split()[:1] == [str(index)]
                   for line in shown.splitlines()), f"layer {index} is not named:\n{shown}"


def test_run_refuses_it_too(tmp_path):
    """The same refusal before the first model call, not a failure to find weights later on."""
    folder, _ = hybrid_config(tmp_path / "hybrid")
    assert run("run", folder, "-p", "x", "--kv-bits", "8").returncode in (3, 4)


@pytest.mark.parametrize("codec,row_bytes", [
    ("f16", lambda d: 2 * d), ("8", lambda d: d + 2), ("6", lambda d: d * 6 // 8 + 2),
    ("4", lambda d: d // 2 + 2), ("3", lambda d: d * 3 // 8 + 2),
    ("affine4:64", lambda d: d // 2 + 4 * d // 64)])
def test_bytes_of_a_token(codec, row_bytes, tmp_path):
    """From config.json alone: codes, and an fp16 scale (affine: and bias) a row or group."""
    config = SPECS["gemma3"].config
    (tmp_path / "config.json").write_text(json.dumps(config))
    plan = ok_json("plan", tmp_path, "--kv-bits", codec, "--ctx", 1024)
    expected = 2 * config["num_key_value_heads"] * row_bytes(config["head_dim"])
    assert [layer["bytes_per_token"] for layer in plan["layers"]] == [expected] * 6
    assert [layer["kind"] for layer in plan["layers"]] == ["sliding", "sliding", "full"] * 2
    assert plan["totals"]["weights_bytes"] is None
    assert plan["refusals"] == [] and plan["runnable"] is True
    for layer in plan["layers"]:
        window = config["sliding_window"] if layer["kind"] == "sliding" else 1024
        assert layer["window"] == (32 if layer["kind"] == "sliding" else None)
        assert window <= layer["max_tokens"] <= window + 2 * 64
        hot = layer["hot"]["max_bytes"] if layer["hot"] else 0
        assert layer["max_bytes"] == layer["max_tokens"] * layer["bytes_per_token"] + hot
    total = sum(layer["max_bytes"] for layer in plan["layers"])
    assert plan["totals"]["kv_bytes"] == total
    two = ok_json("plan", tmp_path, "--kv-bits", codec, "--ctx", 1024, "--parallel", 2)
    assert two["totals"]["kv_bytes"] == 2 * total


def test_the_hot_tier_is_counted(tmp_path):
    """Below 8 bits the newest two pages of 64 tokens are there a second time."""
    config = SPECS["gemma3"].config
    (tmp_path / "config.json").write_text(json.dumps(config))
    heads, dim = config["num_key_value_heads"], config["head_dim"]
    plan_of = lambda *flags: ok_json("plan", tmp_path, "--kv-bits", "full=K6V4+sliding=8",
                                     "--ctx", 1024, *flags)
    eight, f16, none = (plan_of(*flags) for flags in ((), ("--kv-hot", "f16"),
                                                      ("--kv-hot", "none")))
    for plan, bits, row in ((eight, "8", dim + 2), (f16, "f16", 2 * dim)):
        for layer, bare in zip(plan["layers"], none["layers"]):
            assert bare["hot"] is None
            if layer["kind"] == "sliding":
                assert layer == bare
                continue
            size = 128 * heads * 2 * row
            assert layer["hot"] == {"k": bits, "v": bits, "max_tokens": 128, "max_bytes": size}
            assert layer["max_bytes"] == bare["max_bytes"] + size
        assert plan["totals"]["kv_bytes"] == sum(layer["max_bytes"] for layer in plan["layers"])


def test_a_hot_tier_without_effect_is_told(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SPECS["gemma3"].config))
    for codec in ("8", "f16", "affine4:64"):
        told = run("plan", tmp_path, "--kv-bits", codec, "--kv-hot", "f16", "--json").stderr
        assert b"--kv-hot f16 has no effect" in told
        assert run("plan", tmp_path, "--kv-bits", codec, "--json").stderr == b""
    fails(2, "plan", tmp_path, "--kv-hot", "6", mentions=["--kv-hot 6", "none, 8 or f16"])


def test_codecs_by_layer_kind(tmp_path):
    """full=CODEC+sliding=CODEC, and K and V apart."""
    (tmp_path / "config.json").write_text(json.dumps(SPECS["gemma3"].config))
    plan = ok_json("plan", tmp_path, "--kv-bits", "full=4+sliding=8")
    by_kind = {layer["kind"]: layer["bytes_per_token"] for layer in plan["layers"]}
    assert by_kind == {"full": 2 * 2 * (32 + 2), "sliding": 2 * 2 * (64 + 2)}
    split = ok_json("plan", tmp_path, "--kv-bits", "3.5")
    same = ok_json("plan", tmp_path, "--kv-bits", "K4V3")
    apart = ok_json("plan", tmp_path, "--kv-key-bits", "4", "--kv-value-bits", "3")
    assert split["layers"] == same["layers"] == apart["layers"]
    assert split["layers"][0]["bytes_per_token"] == 2 * (32 + 2) + 2 * (24 + 2)


@pytest.mark.parametrize("head_dim", [64, 80, 96, 112, 128, 192, 256, 512])
@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("bits", [4, 8])
def test_group_sizes_work_or_are_refused_at_once(head_dim, group, bits, tmp_path):
    """A head size that the group does not divide is refused by name with the head size and the
    group, before the first token; never an error in the middle of generation."""
    config = {**SPECS["qwen3"].config, "head_dim": head_dim}
    (tmp_path / "config.json").write_text(json.dumps(config))
    codec = f"affine{bits}:{group}"
    result = run("plan", tmp_path, "--kv-bits", codec)
    if head_dim % group == 0:
        assert result.returncode == 0, result.stderr
    elif result.returncode != 0:
        assert result.returncode == 3
        message = result.stderr.decode()
        assert str(head_dim) in message and str(group) in message
    hadamard = run("plan", tmp_path, "--kv-bits", str(bits))
    assert hadamard.returncode == 0, hadamard.stderr


def test_a_refusal_is_told_once(demo):
    """On stderr, a line for each layer, with both halves in one sentence where it is the same."""
    result = run("plan", demo, "--kv-bits", "8", "--kv-group-size", 48)
    shown = (result.stdout + result.stderr).decode()
    assert result.returncode == 3
    assert shown.count("head size 256 is not divisible") == 18 == shown.count("K and V head size 256")


def test_the_table_shows_every_layer(demo):
    """Text output: rows of one layer or of a run of equal ones, that together name every layer."""
    shown = []
    for line in ok("plan", demo, "--kv-bits", "8").decode().splitlines():
        match = re.match(r"(\d+)(?:-(\d+))? +(\w+) ", line)
        if match:
            first, last = int(match[1]), int(match[2] or match[1])
            shown += [(i, match[3]) for i in range(first, last + 1)]
    assert shown == [(i, "full" if i % 6 == 5 else "sliding") for i in range(18)]
    assert ok_json("plan", demo)["totals"]["weights_bytes"] > 100_000_000


def test_memory_that_the_sequences_share(tmp_path):
    """--kv-memory: the pool takes at most so much, to the page; one sequence must fit."""
    (tmp_path / "config.json").write_text(json.dumps(SPECS["gemma3"].config))
    flags = ("--ctx", 4096, "--kv-bits", "8")
    pool = lambda plan: plan["totals"]["kv_bytes"] + plan["totals"]["kv_prefill_bytes"]
    one = ok_json("plan", tmp_path, *flags)
    whole = ok_json("plan", tmp_path, *flags, "--parallel", 8)
    assert whole["memory"] is None and pool(whole) == 8 * pool(one)
    full = [layer for layer in one["layers"] if layer["kind"] == "full"]
    page = 64 * sum(layer["bytes_per_token"] for layer in full)
    memory = pool(whole) // 2
    half = ok_json("plan", tmp_path, *flags, "--parallel", 8, "--kv-memory", memory)
    assert memory - page < pool(half) <= memory
    assert half["memory"]["bytes"] == memory
    assert 4096 <= half["memory"]["tokens"] < 8 * 4096 and half["memory"]["tokens"] % 64 == 0
    assert half["layers"] == whole["layers"]  # what one sequence may come to
    assert ok_json("plan", tmp_path, *flags, "--parallel", 8, "--kv-memory", pool(one))["runnable"]
    fails(3, "plan", tmp_path, *flags, "--parallel", 8, "--kv-memory", pool(one) - 1,
          mentions=["kv-memory", str(pool(one)), "4096 tokens"])
    fails(2, "plan", tmp_path, "--kv-memory", "1G", "--kv-budget", "1G", mentions=["--kv-budget"])
    fails(2, "plan", tmp_path, "--kv-memory", "much", mentions=["--kv-memory"])
    ok_json("plan", tmp_path, "--kv-memory", "1.5GiB")


def test_negative_numbers_are_usage_errors(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SPECS["gemma3"].config))
    for flag in ("--ctx", "--max-kv-size", "--keep", "--quantized-kv-start", "--parallel"):
        fails(2, "plan", tmp_path, f"{flag}=-5", mentions=[flag])
