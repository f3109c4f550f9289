"""Mixtures of experts: their GGUF, MLX and MXFP4 files against other engines, the same bits however
the work is cut, caches of every width near f16, and that a step reads the experts it uses."""

import json

import numpy as np
import pytest

import tiny_moe
from make_tiny_model import make_tensors, test_tokens as fixed_tokens, write_hf, write_mlx
from oracles import mlx_logits
from ringkeep_cli import fails, logits, ok, ok_json, run, worst_error
from test_serving_load import mixed_requests, same_together_as_alone
from tiny_specs import SPECS, WINDOW

TOLERANCE = 2e-3
TOKENS = 4 * WINDOW + 12
QWEN = ["qwen3_moe", "qwen2_moe"]
FAMILIES = [*QWEN, "gemma4_moe", "gpt_oss_truncate"]


def tokens_of(name, count=TOKENS):
    return tuple(fixed_tokens(SPECS[name], count))


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
@pytest.mark.parametrize("name", ["qwen2_moe", "gemma4_moe", "gpt_oss_truncate"])
def test_gguf(name, kind, tiny, tmp_path):
    """Stacks, routers, biases and norms as llama.cpp names them."""
    path, tokens = tiny.gguf(name, kind), tokens_of(name)
    reference = tmp_path / "reference"
    write_hf(reference, tiny.gguf_weights[path], SPECS[name].config)
    found = logits(path, tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(reference, tokens)) < TOLERANCE


def test_gguf_of_qwen_3(tiny, tmp_path):
    """GGUF files have experts on every layer, and weights that sum to 1."""
    spec = SPECS["qwen3_moe"]
    config = {**spec.config, "mlp_only_layers": []}
    every = type(spec)("qwen3_moe_every", config, 97)
    import tiny_gguf

    for kind in ("F32", "Q8_0"):
        path = tmp_path / f"{kind}.gguf"
        seen = tiny_gguf.write_gguf(path, every, make_tensors(every), kind)
        write_hf(tmp_path / kind, seen, config)
        found = logits(path, tokens_of("qwen3_moe"), tmp_path, "--exact")
        assert worst_error(found, mlx_logits(tmp_path / kind, tokens_of("qwen3_moe"))) < TOLERANCE


@pytest.mark.parametrize("name,keys,norm", [
    ("qwen2_moe", {"expert_gating_func": 1}, False),
    ("qwen3_moe", {"expert_weights_norm": False}, False), ("qwen3_moe", {"expert_gating_func": 3}, True),
    ("qwen3_moe", {"expert_weights_norm": False, "expert_gating_func": 3}, True),
    ("gpt_oss_truncate", {"expert_gating_func": 1}, None),
    ("gpt_oss_truncate", {"expert_gating_func": 3}, None)])
def test_gguf_says_how_experts_are_weighed(name, keys, norm, tmp_path):
    """Softmax over all experts or over the chosen ones, and whether weights sum to 1."""
    import tiny_gguf

    config = {**SPECS[name].config, "mlp_only_layers": [], **keys}
    spec = type(SPECS[name])("gating", config, 98)
    seen = tiny_gguf.write_gguf(tmp_path / "model.gguf", spec, make_tensors(spec), "F32")
    write_hf(tmp_path / "reference", seen, config if norm is None else {**config, "norm_topk_prob": norm})
    found = logits(tmp_path / "model.gguf", tokens_of(name), tmp_path, "--exact")
    assert worst_error(found, mlx_logits(tmp_path / "reference", tokens_of(name))) < TOLERANCE


def test_softmax_over_the_chosen_is_weights_that_sum_to_1(tmp_path):
    """Of Qwen 2, whose weights otherwise do not; mlx-lm has no such one."""
    import tiny_gguf

    def of(name, **keys):
        spec = type(SPECS["qwen2_moe"])("gating", {**SPECS["qwen2_moe"].config, **keys}, 98)
        tiny_gguf.write_gguf(tmp_path / name, spec, make_tensors(spec), "F32")
        return logits(tmp_path / name, tokens_of("qwen2_moe"), tmp_path, "--exact")

    chosen = of("chosen.gguf", expert_gating_func=3)
    assert (chosen == of("norm.gguf", expert_weights_norm=True)).all()
    assert worst_error(chosen, of("plain.gguf")) > 0.05


@pytest.mark.parametrize("function", [2, 4, 77])
def test_gguf_with_another_gating_function_is_refused(function, tmp_path):
    import tiny_gguf

    spec = SPECS["gpt_oss_truncate"]
    spec = type(spec)("gating", {**spec.config, "expert_gating_func": function}, 98)
    tiny_gguf.write_gguf(tmp_path / "model.gguf", spec, make_tensors(spec), "F32")
    fails(4, "plan", tmp_path / "model.gguf", mentions=["gpt-oss.expert_gating_func", function])


# Not Gemma in 8 bits and groups of 32: for one token two of its experts are then so near each other
# that the halves of the cache decide.
@pytest.mark.parametrize("name,bits,group", [
    ("qwen3_moe", 4, 64), ("qwen3_moe", 8, 32), ("qwen2_moe", 6, 64), ("gemma4_moe", 4, 64),
    ("gemma4_moe", 8, 64), ("gpt_oss_truncate", 4, 32), ("gpt_oss_truncate", 8, 32)])
def test_mlx_quantized(name, bits, group, tiny, tmp_path):
    """Stacks of codes, scales and biases."""
    path, tokens = tiny.mlx(name, bits, group), tokens_of(name)
    found = logits(path, tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(path, tokens)) < TOLERANCE


def test_mlx_mixed_modes(tmp_path):
    """As mlx-lm converts GPT-OSS: experts in mode mxfp4, the rest affine."""
    spec = SPECS["gpt_oss_truncate"]
    tensors = tiny_moe.stacked(spec.config, make_tensors(spec))
    modes = {n.removesuffix(".weight"): (4, 32, "mxfp4") for n in tensors
             if ".experts." in n and n.endswith(".weight")}
    modes |= {n.removesuffix(".weight"): (8, 64) for n in tensors if n.endswith("router.weight")}
    write_mlx(tmp_path, tensors, spec.config, 8, 32, modes)
    found = logits(tmp_path, tokens_of(spec.name), tmp_path, "--exact")
    assert worst_error(found, mlx_logits(tmp_path, tokens_of(spec.name))) < TOLERANCE


def test_mxfp4_is_exact(tmp_path):
    """Blocks and scales as OpenAI publishes them: the same bits as dense experts of the same values,
    with float32 activations; and what mlx-lm makes of them."""
    spec = SPECS["gpt_oss_truncate"]
    packed, dense = tiny_moe.published_gpt_oss(make_tensors(spec))
    quantization = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}
    write_hf(tmp_path / "packed", packed, {**spec.config, "quantization_config": quantization})
    write_hf(tmp_path / "dense", dense, spec.config)
    tokens = tokens_of(spec.name)
    found = logits(tmp_path / "packed", tokens, tmp_path, "--exact")
    assert (found == logits(tmp_path / "dense", tokens, tmp_path, "--exact")).all()
    assert worst_error(found, mlx_logits(tmp_path / "packed", tokens)) < TOLERANCE
    packed_types = {t["name"]: t["packed"] for t in ok_json("inspect", tmp_path / "packed")["tensors"]}
    assert packed_types["model.layers.0.mlp.experts.down_proj"] == "4-bit e2m1, groups of 32, bf16 scales"
    # Rounded activations: near, but in the few rows where the router takes another expert; where it
    # takes them all, in every row.
    rounded = logits(tmp_path / "packed", tokens, tmp_path)
    errors = np.sort(abs(rounded - found).max(axis=-1) / found.std())
    assert 0 < errors[0] and errors[int(0.95 * len(errors))] < 0.05, errors
    write_hf(tmp_path / "all", packed, {**spec.config, "quantization_config": quantization,
                                        "num_experts_per_tok": spec.config["num_local_experts"]})
    run_all = lambda *mode: logits(tmp_path / "all", tokens, tmp_path, *mode)
    assert 0 < worst_error(run_all(), run_all("--exact")) < 0.1


def test_mxfp4_of_gguf(tiny, tmp_path):
    """GGUF's blocks of 17 bytes, and experts that are quantized while loading."""
    name = "gpt_oss_truncate"
    path, tokens = tiny.gguf(name, "MXFP4"), tokens_of(name)
    write_hf(tmp_path / "reference", tiny.gguf_weights[path], SPECS[name].config)
    found = logits(path, tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(tmp_path / "reference", tokens)) < TOLERANCE
    eight = logits(tiny.hf(name), tokens, tmp_path, "--exact", "--weight-bits", 8, "--weight-group", 32)
    expected = mlx_logits(tiny.hf(name), tokens)
    assert 0 < np.sqrt(((eight - expected)**2).mean()) / expected.std() < 0.1


@pytest.mark.parametrize("name", FAMILIES)
def test_default_arithmetic_stays_close(name, tiny, tmp_path):
    """Only the activations' precision changes; the router's is fine for every row."""
    found = logits(tiny.hf(name), tokens_of(name), tmp_path)
    assert worst_error(found, mlx_logits(tiny.hf(name), tokens_of(name))) < 0.1


@pytest.mark.parametrize("name", FAMILIES)
def test_quantized_caches_stay_near(name, tiny, tmp_path):
    """A root mean square, since a router that decides otherwise makes single tokens jump."""
    tokens = tokens_of(name)
    with_cache = lambda *flags: logits(tiny.hf(name), tokens, tmp_path, "--exact", "--kv-bits", *flags)
    exact = with_cache("f16")
    rms = lambda found: float(np.sqrt(((found - exact)**2).mean()) / exact.std())
    eight, four = rms(with_cache("8")), rms(with_cache("4", "--kv-hot", "none"))
    assert 0 < eight < 0.05, eight
    assert 1.5 * eight < four < 0.3, (eight, four)


@pytest.mark.parametrize("source", ["F32", "Q4_0"])
@pytest.mark.parametrize("name", ["qwen2_moe", "gemma4_moe", "gpt_oss_truncate"])
def test_chunks_and_threads(name, source, tiny, tmp_path):
    """The same bits however many rows share an expert."""
    path, tokens = tiny.gguf(name, source), tokens_of(name, 200)
    cut = lambda chunk, threads: logits(path, tokens, tmp_path, "--kv-bits", "4", "--chunk", chunk,
                                        "--threads", threads)
    whole = cut(512, 1)
    for chunk, threads in [(512, 2), (7, 2), (1, 1), (64, 2)]:
        assert (cut(chunk, threads).view(np.uint32) == whole.view(np.uint32)).all(), (chunk, threads)


def test_more_rows_than_experts_take_at_once(tiny, tmp_path):
    """Steps of more than 512 rows meet their experts in parts."""
    path, tokens = tiny.gguf("qwen2_moe", "Q8_0"), tokens_of("qwen2_moe", 1100)
    cut = lambda chunk: logits(path, tokens, tmp_path, "--chunk", chunk, "--ctx", 1200)
    assert (cut(1100) == cut(300)).all()


@pytest.mark.parametrize("name", ["qwen2_moe", "gemma4_moe", "gpt_oss_truncate"])
def test_requests_of_a_batch_get_what_each_gets_alone(name, tiny):
    bodies = mixed_requests(8, 96, [5, 70, 33, 130], 12, shared=40)
    same_together_as_alone(tiny.gguf(name, "F16"), ["--kv-bits", "4", "--ctx", 256], bodies,
                           parallel=8)


@pytest.mark.parametrize("name", ["qwen2_moe", "gemma4_moe", "gpt_oss_truncate"])
def test_a_decode_step_reads_the_active_experts(name, tiny):
    """Counted by the kernels: 3 matrices of each chosen expert of each layer, of 4 bytes a weight."""
    config, model = SPECS[name].config, tiny.gguf(name, "F32")
    count = config.get("num_experts") or config["num_local_experts"]
    used = config.get("num_experts_per_tok") or config["top_k_experts"]
    width = config.get("moe_intermediate_size") or config["intermediate_size"]
    one = 3 * config["num_hidden_layers"] * width * config["hidden_size"] * 4
    bench = ok_json("bench", model, "-p", 64, "-n", 4, "-d", 0, "--codecs", "8", "-r", 1)
    assert bench["rows"][0]["expert_bytes"] == used * one
    totals = ok_json("plan", model)["totals"]
    assert totals["weights_bytes"] - totals["weights_active_bytes"] == (count - used) * one
    inspected = ok_json("inspect", model)["experts"]
    assert inspected == {"count": count, "used": used, "weights_bytes": totals["weights_bytes"],
                         "active_bytes": totals["weights_active_bytes"],
                         "expert_bytes": count * one, "memory_bytes": count * one}
    assert totals["expert_bytes"] == totals["expert_memory_bytes"] == count * one
    log = run("run", model, "-v", "--raw", "-p", "a", "-n", 1).stderr.decode()
    assert f"loaded: {totals['weights_bytes']} " in log
    assert f"{used} of {count} experts a layer" in ok("bench", model, "-p", 8, "-n", 1, "-d", 0,
                                                     "--codecs", "8", "-r", 1).decode()


def altered(name, folder, change):
    tensors, config = make_tensors(SPECS[name]), dict(SPECS[name].config)
    change(tensors, config)
    write_hf(folder, tensors, config)
    return folder


@pytest.mark.parametrize("name,change,mentions", [
    ("qwen3_moe", lambda t, c: t.pop("model.layers.2.mlp.experts.7.up_proj.weight"),
     ["model.layers.2.mlp.experts.7.up_proj.weight", "missing"]),
    ("qwen3_moe", lambda t, c: t.update({"model.layers.0.mlp.experts.12.up_proj.weight": np.zeros(
        (64, 128), np.float32)}), ["experts.12.up_proj", "not part of a qwen3_moe model"]),
    ("qwen3_moe", lambda t, c: t.update({"model.layers.0.mlp.gate.bias": np.zeros(12, np.float32)}),
     ["mlp.gate.bias", "not part of a qwen3_moe model"]),
    ("qwen3_moe", lambda t, c: c.update(use_sliding_window=True, sliding_window=32),
     ["use_sliding_window"]),
    ("qwen3_moe", lambda t, c: c.update(mlp_only_layers=[4]), ["mlp_only_layers"]),
    ("qwen3_moe", lambda t, c: c.update(num_experts_per_tok=13), ["num_experts_per_tok"]),
    ("qwen2_moe", lambda t, c: t.pop("model.layers.1.mlp.shared_expert_gate.weight"),
     ["model.layers.1.mlp.shared_expert_gate.weight", "missing"]),
    ("gemma4_moe", lambda t, c: t.pop("model.layers.1.router.per_expert_scale"),
     ["model.layers.1.router.per_expert_scale", "missing"]),
    ("gemma4_moe", lambda t, c: c.update(moe_intermediate_size=96),
     ["experts.gate_up_proj", "[16, 192, 64]"]),
    ("gpt_oss", lambda t, c: t.pop("model.layers.3.self_attn.sinks"),
     ["model.layers.3.self_attn.sinks", "missing"]),
    ("gpt_oss", lambda t, c: t.pop("model.layers.3.mlp.experts.down_proj_bias"), ["down_proj", "bias"]),
    ("gpt_oss", lambda t, c: c.pop("rope_scaling"), ["rope_scaling"]),
    ("gpt_oss", lambda t, c: t.update({"model.layers.0.mlp.experts.down_proj_blocks": np.zeros(
        (8, 128, 3, 16), np.uint8)}), ["down_proj_blocks", "down_proj_scales"]),
])
def test_what_does_not_fit_is_named(name, change, mentions, tmp_path):
    model = altered(name, tmp_path, change)
    fails(4, "logits", model, "--tokens", "2,5", "-o", tmp_path / "x.npy", mentions=mentions)


def test_packing_takes_no_second_copy(tmp_path):
    """Loading a large stack: peak memory is the packed weights and little more."""
    import tiny_gguf

    spec = SPECS["qwen2_moe"]
    config = {**spec.config, "num_experts": 64, "moe_intermediate_size": 512,
              "mlp_only_layers": [], "num_hidden_layers": 3}
    big = type(spec)("big", config, 98)
    path = tmp_path / "big.gguf"
    tiny_gguf.write_gguf(path, big, make_tensors(big), "F32")
    weights = ok_json("plan", path)["totals"]["weights_bytes"]
    assert weights > 280e6
    peak = ok_json("run", path, "--raw", "-p", "a", "-n", 1, "--ctx", 128, "--chunk", 64)["peak_rss_bytes"]
    assert peak < weights + 96e6, (peak, weights)
