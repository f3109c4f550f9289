"""Calibrated factors: against Q and K of mlx-lm's forward pass, and what they are worth."""

import functools
import json
import struct

import numpy as np
import pytest

import kld
from make_tiny_model import test_tokens as fixed_tokens
from ringkeep_cli import fails, logits, ok, ok_json
from tiny_specs import SPECS

TOKENS = 200


def read_factors(path):
    from safetensors.numpy import load_file

    tensors = load_file(path)
    return [tensors[f"layers.{i}.k_balance"] for i in range(len(tensors))]


@functools.cache
def mlx_queries_and_keys(folder, tokens):
    """Per layer (q [heads, tokens, dim], k [kv_heads, tokens, dim]) as they go into RoPE."""
    import mlx.core as mx
    from mlx_lm.utils import load_model

    mx.set_default_device(mx.cpu)
    model, _ = load_model(folder)
    model.set_dtype(mx.float32)
    seen = []
    for layer in model.layers:
        rope = layer.self_attn.rope

        class Recorder:
            def __init__(self, rope):
                self.rope = rope

            def __call__(self, x, *args, **kwargs):
                seen.append(np.array(x[0]))
                return self.rope(x, *args, **kwargs)

        layer.self_attn.rope = Recorder(rope)
    mx.eval(model(mx.array([tokens])))
    return list(zip(seen[0::2], seen[1::2]))


def expected_factors(q, k, rotary):
    """sqrt(rms q / rms k) per KV head and rotary pair (i, i + rotary / 2), floored, geometric mean 1."""
    kv_heads, _, dim = k.shape
    pair = np.arange(dim)
    pair[rotary // 2:rotary] = np.arange(rotary // 2)
    factors = []
    for head in range(kv_heads):
        group = q.reshape(kv_heads, -1, q.shape[1], dim)[head]
        rms = []
        for x in (group.reshape(-1, dim), k[head]):
            squares = (x.astype(np.float64)**2).mean(axis=0)
            sums = np.bincount(pair, squares, dim) / np.bincount(pair, minlength=dim).clip(1)
            rms.append(np.sqrt(sums[pair]))
        rms = [np.maximum(r, 1e-3 * r.max()) for r in rms]
        c = np.sqrt(rms[0] / rms[1])
        factors.append(c / np.exp(np.log(c).mean()))
    return np.array(factors)


@pytest.mark.parametrize("name", ["gemma3", "qwen3", "llama3", "llama_bias"])
def test_factors_against_mlx(name, tiny, tmp_path):
    """With and without q and k norms; one and more KV heads; windows of 64 tokens of the text."""
    tokens = fixed_tokens(SPECS[name], TOKENS)
    ids, out = tmp_path / "ids.txt", tmp_path / "c.safetensors"
    ids.write_text(",".join(map(str, tokens)))
    report = ok_json("calibrate", tiny.hf(name), "--tokens-file", ids, "-o", out, "--exact",
                     "--ctx", 128, "--tokens", 128, "--held-out", 64)
    assert report["tokens"] == 128
    assert report["gain"]["rows"] == 32
    found = read_factors(out)
    layers = mlx_queries_and_keys(tiny.hf(name), tuple(tokens[:128]))
    assert len(found) == len(layers)
    for factors, (q, k) in zip(found, layers):
        assert np.abs(factors / expected_factors(q, k, k.shape[2]) - 1).max() < 2e-3


def test_logits_with_factors(tiny, tmp_path):
    """A Llama without norms: the factors change a 4-bit cache, and leave an f16 one as it is."""
    name = "llama_bias"
    tokens = fixed_tokens(SPECS[name], TOKENS)
    ids, out = tmp_path / "ids.txt", tmp_path / "c.safetensors"
    ids.write_text(",".join(map(str, tokens)))
    ok("calibrate", tiny.hf(name), "--tokens-file", ids, "-o", out, "--held-out", 0)
    run = lambda *flags: logits(tiny.hf(name), tokens, tmp_path, "--exact", *flags)
    f16 = run()
    assert (run("--kv-calibration", out) == f16).all()
    eight, with_factors = run("--kv-bits", 8), run("--kv-bits", 8, "--kv-calibration", out)
    assert (eight != with_factors).any()
    assert kld.compare(f16, with_factors)["kld_mean"] < 2 * kld.compare(f16, eight)["kld_mean"]
    for chunk in (7, 64):
        assert (run("--kv-bits", 8, "--kv-calibration", out, "--chunk", chunk) == with_factors).all()


def test_refusals(tiny, tmp_path):
    """Another model's file, a damaged one and no file are told before anything runs."""
    ids, out = tmp_path / "ids.txt", tmp_path / "c.safetensors"
    ids.write_text("2,5,7,9")
    measure = ("calibrate", tiny.hf("qwen3"), "--tokens-file", ids, "-o", out, "--held-out", 0)
    fails(4, *measure, mentions=(ids, "4 tokens", "at least 64"))
    assert not out.exists()
    ids.write_text(",".join(map(str, fixed_tokens(SPECS["qwen3"], 64))))
    ok(*measure)
    before = out.read_bytes()
    fails(2, *measure, mentions=(out, "--force"))
    fails(2, *measure, "--tokens", 63, mentions=("--tokens", 64))
    assert out.read_bytes() == before
    ok(*measure, "--force")
    assert ok("plan", tiny.hf("qwen3"), "--kv-bits", 4, "--kv-calibration", out)
    for command in (["plan"], ["logits", "--tokens", "2,5", "-o", tmp_path / "x.npy"],
                    ["bench", "-r", 1, "-p", 8, "-n", 1, "-d", 0, "--codecs", "4"]):
        fails(4, command[0], tiny.hf("llama3"), *command[1:], "--kv-calibration", out,
              mentions=("family is qwen3, this model has llama",))
    damaged = bytearray(out.read_bytes())
    damaged[-3] ^= 1
    out.write_bytes(damaged)
    fails(4, "plan", tiny.hf("qwen3"), "--kv-calibration", out, mentions=("edited or damaged",))
    out.write_bytes(damaged[:40])
    fails(4, "plan", tiny.hf("qwen3"), "--kv-calibration", out, mentions=("truncated",))
    fails(4, "plan", tiny.hf("qwen3"), "--kv-calibration", tmp_path / "none", mentions=("none",))


def test_gain_on_the_demo_model(demo, tmp_path):
    """Factors from one part of a text halve the divergence of another: .0368 to .0215 on
    debian-handbook after 8,192 tokens; here after 1,024."""
    import pydoc_data.topics

    topics = pydoc_data.topics.topics
    text = tmp_path / "prose.txt"
    text.write_text("\n\n".join(topics[name] for name in sorted(topics))[:20000])
    report = ok_json("calibrate", demo, "--text", text, "-o", tmp_path / "c.safetensors",
                     "--tokens", 1024, "--held-out", 384)
    gain = report["gain"]
    assert gain["kld_after"] < 0.85 * gain["kld_before"], gain
    noise = report["score_noise"]
    assert noise["plain"] > noise["weights"] > 1, noise
