"""Logits of every family from every file format equal those of other engines, at every position up
to four windows. Tolerances are fractions of the logits' spread at a position."""

import pytest

from make_tiny_model import fingerprint, make_tensors, test_tokens as fixed_tokens, write_hf
from oracles import mlx_logits, transformers_golden
from ringkeep_cli import logits, worst_error
from tiny_specs import SPECS, WINDOW

TOLERANCE = 2e-3
TOKENS = 4 * WINDOW + 12


def tokens_of(name):
    return tuple(fixed_tokens(SPECS[name], TOKENS))


@pytest.mark.parametrize("name", sorted(SPECS))
def test_safetensors_against_transformers(name, tiny, tmp_path):
    """Sliding and full layers, RoPE scalings, q/k norms, biases, head sizes, tied embeddings."""
    expected, tokens, sha256 = transformers_golden(name)
    assert fingerprint(make_tensors(SPECS[name])) == sha256, "the checkpoint is not the golden's"
    assert worst_error(logits(tiny.hf(name), tokens, tmp_path, "--exact"), expected) < TOLERANCE


# mlx-lm rounds the ends of yarn's ramp to whole pairs whatever `truncate` says, and knows Llama 4's
# published order of layers alone.
@pytest.mark.parametrize("name", sorted(SPECS.keys() - {"gpt_oss", "llama4_listed"}))
def test_safetensors_against_mlx(name, tiny, tmp_path):
    """The same checkpoints against a second engine."""
    tokens = tokens_of(name)
    found = logits(tiny.hf(name), tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(tiny.hf(name), tokens)) < TOLERANCE


@pytest.mark.parametrize("name", ["gemma3", "gemma3n", "gemma4", "gemma4_e", "qwen3", "llama3",
                                  "llama_bias"])
def test_default_arithmetic_stays_close(name, tiny, tmp_path):
    """Without --exact only the activations' precision changes, not the model."""
    tokens = tokens_of(name)
    found = logits(tiny.hf(name), tokens, tmp_path)
    assert worst_error(found, mlx_logits(tiny.hf(name), tokens)) < 0.1


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0"])
@pytest.mark.parametrize("name", ["gemma3_pattern6", "gemma3n", "gemma4", "gemma4_e", "qwen3", "llama3",
                                  "llama_yarn"])
def test_gguf_against_mlx(name, kind, tiny, tmp_path):
    """Converter names, metadata, the permutation of llama's q and k, block formats."""
    path, tokens = tiny.gguf(name, kind), tokens_of(name)
    reference = tmp_path / "reference"
    write_hf(reference, tiny.gguf_weights[path], SPECS[name].config)
    found = logits(path, tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(reference, tokens)) < TOLERANCE


@pytest.mark.parametrize("name,bits,group", [
    ("gemma3", 4, 64), ("gemma3", 8, 64), ("gemma3n", 8, 32), ("gemma3n_odd", 4, 32),
    ("gemma4", 4, 64), ("gemma4_e", 8, 32), ("qwen3", 4, 64), ("qwen3", 8, 32), ("qwen3_tied", 5, 64),
    ("llama3", 4, 128), ("llama3", 3, 64), ("llama_yarn", 6, 64), ("llama_bias", 2, 64)])
def test_mlx_quantized(name, bits, group, tiny, tmp_path):
    """MLX affine checkpoints of every bit width; groups of 32, 64 and 128; quantized embeddings."""
    if name == "llama3" and group == 128:
        # The feed-forward's 192 columns are no multiple of 128: down_proj stays at 64.
        options = {"tag": "-down64", "overrides": {
            f"model.layers.{i}.mlp.down_proj": (bits, 64) for i in range(6)}}
    else:
        options = {}
    path, tokens = tiny.mlx(name, bits, group, **options), tokens_of(name)
    found = logits(path, tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(path, tokens)) < TOLERANCE


def test_mlx_bfloat16_scales(tiny, tmp_path):
    """Scales and norms in bfloat16, as published checkpoints have them."""
    path, tokens = tiny.mlx("qwen3", 4, 64, "-bf16", dtype="bfloat16"), tokens_of("qwen3")
    found = logits(path, tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(path, tokens)) < TOLERANCE


@pytest.mark.parametrize("prefix,key_of", [
    ("model", lambda module: module),
    ("language_model.model", lambda module: f"language_model.{module}"),
    ("model.language_model", lambda module: module.replace("model.", "model.language_model.", 1)),
])
def test_mlx_mixed_bits(prefix, key_of, tiny, tmp_path):
    """Global 4 bits, one layer at 6 and one left unquantized; override keys may carry the prefix of
    a vision-language checkpoint while the tensors do not."""
    overrides = {"model.layers.1.mlp.down_proj": (6, 64), "model.layers.2.self_attn.q_proj": None}
    tokens = tokens_of("qwen3")
    plain = tiny.mlx("qwen3", 4, 64, "-mixed", overrides=overrides)
    path = tiny.mlx("qwen3", 4, 64, f"-mixed-{prefix}", overrides=overrides, key_of=key_of)
    found = logits(path, tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(plain, tokens)) < TOLERANCE


@pytest.mark.parametrize("shards", [2, 3])
def test_sharded_safetensors(shards, tiny, tmp_path):
    """An index over several files gives the very same logits."""
    tokens = tokens_of("qwen3")
    one = logits(tiny.hf("qwen3"), tokens, tmp_path)
    assert (logits(tiny.hf("qwen3", shards), tokens, tmp_path) == one).all()


def test_split_gguf(tiny, tmp_path):
    """A set of split files, opened by its first one, gives the very same logits."""
    tokens = tokens_of("llama3")
    one = logits(tiny.gguf("llama3", "Q8_0"), tokens, tmp_path)
    assert (logits(tiny.gguf("llama3", "Q8_0", splits=20), tokens, tmp_path) == one).all()


def test_half_precision_safetensors(tiny, tmp_path):
    """bfloat16 and float16 tensors; the weights are exact in both, norms apart."""
    import mlx.core as mx

    spec, tokens = SPECS["qwen3"], tokens_of("qwen3")
    for dtype in ("bfloat16", "float16"):
        folder = tmp_path / dtype
        write_hf(folder, make_tensors(spec), {**spec.config, "torch_dtype": dtype})
        mx.save_safetensors(str(folder / "model.safetensors"), {
            name: mx.array(t).astype(getattr(mx, dtype)) for name, t in make_tensors(spec).items()},
            {"format": "pt"})
        found = logits(folder, tokens, tmp_path, "--exact")
        assert worst_error(found, mlx_logits(folder, tokens)) < TOLERANCE


@pytest.mark.parametrize("bits", [4, 8])
def test_quantizing_while_loading(bits, tiny, tmp_path):
    """--weight-bits gives what a checkpoint quantized beforehand would: close to the same logits."""
    tokens = tokens_of("llama3")
    found = logits(tiny.hf("llama3"), tokens, tmp_path, "--exact", "--weight-bits", bits,
                   "--weight-group", 64)
    exact = mlx_logits(tiny.hf("llama3"), tokens)
    quantized = mlx_logits(tiny.mlx("llama3", bits, 64), tokens)
    error = lambda x: ((x - exact)**2).mean()**0.5
    assert 0 < error(found) < 1.5 * error(quantized)
