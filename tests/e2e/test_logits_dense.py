"""The dense families beside Gemma 3, Llama and Qwen 3: their GGUF and MLX files, their long-rope
factors, quantized caches, and requests that share a batch."""

import json

import numpy as np
import pytest

from make_tiny_model import make_tensors, test_tokens as fixed_tokens, write_hf
from oracles import mlx_logits
from ringkeep_cli import fails, logits, run, worst_error
from test_serving_load import mixed_requests, same_together_as_alone
from tiny_specs import SPECS, WINDOW

TOLERANCE = 2e-3
TOKENS = 4 * WINDOW + 12
FAMILIES = ["qwen2", "gemma2", "phi3_long", "phi3_window", "smollm3", "olmo2", "olmo3", "cohere2",
            "ministral3"]


def tokens_of(name):
    return tuple(fixed_tokens(SPECS[name], TOKENS))


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
@pytest.mark.parametrize("name", FAMILIES)
def test_gguf(name, kind, tiny, tmp_path):
    """Names, metadata, permuted rows, rope factors and fused matrices as llama.cpp writes them."""
    path, tokens = tiny.gguf(name, kind), tokens_of(name)
    reference = tmp_path / "reference"
    write_hf(reference, tiny.gguf_weights[path], SPECS[name].config)
    found = logits(path, tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(reference, tokens)) < TOLERANCE


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("name", ["qwen2", "gemma2", "phi3_long", "olmo2", "olmo3", "cohere2", "ministral",
                                  "ministral3"])
def test_mlx_quantized(name, bits, tiny, tmp_path):
    """Codes, scales and biases of fused matrices are cut where their rows are."""
    path, tokens = tiny.mlx(name, bits, 64), tokens_of(name)
    found = logits(path, tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(path, tokens)) < TOLERANCE


@pytest.mark.parametrize("name", sorted(set(FAMILIES) | {"qwen2_window", "ministral",
                                                         "ministral3_window"}))
def test_quantized_caches_stay_near(name, tiny, tmp_path):
    """8 bits change logits a little, 4 bits without a hot tier more: measured on random weights, where
    nothing averages out, several windows long."""
    tokens = tokens_of(name)
    with_cache = lambda *flags: logits(tiny.hf(name), tokens, tmp_path, "--exact", "--kv-bits", *flags)
    exact = with_cache("f16")
    rms = lambda found: float(np.sqrt(((found - exact)**2).mean()) / exact.std())
    eight, four = rms(with_cache("8")), rms(with_cache("4", "--kv-hot", "none"))
    assert 0 < eight < 0.01, eight
    assert 2 * eight < four < 0.2, (eight, four)


@pytest.mark.parametrize("name", ["qwen2_window", "gemma2_query", "phi3_long", "smollm3_listed",
                                  "olmo3", "cohere2", "ministral3"])
@pytest.mark.parametrize("codec", ["f16", "4"])
def test_chunks_and_threads(name, codec, tiny, tmp_path):
    """The same bits however the prompt is cut."""
    tokens = fixed_tokens(SPECS[name], 200)
    cut = lambda chunk, threads: logits(tiny.hf(name), tokens, tmp_path, "--kv-bits", codec,
                                        "--chunk", chunk, "--threads", threads)
    whole = cut(512, 1)
    for chunk, threads in [(7, 2), (1, 1), (64, 2)]:
        assert (cut(chunk, threads).view(np.uint32) == whole.view(np.uint32)).all()


@pytest.mark.parametrize("name", ["qwen2", "gemma2", "phi3_long", "smollm3", "olmo3", "cohere2",
                                  "ministral3"])
def test_requests_of_a_batch_get_what_each_gets_alone(name, tiny):
    """Eight at once, of different lengths, some beginning alike: the same texts."""
    bodies = mixed_requests(8, 96, [5, 70, 33, 130], 12, shared=40)
    same_together_as_alone(tiny.gguf(name, "F16"), ["--kv-bits", "4", "--ctx", 256], bodies,
                           parallel=8)


def test_short_rope_factors(tiny, tmp_path):
    """A context within the original one uses the short factors. mlx-lm always uses the long ones, so
    it is given the short ones under that name."""
    spec = SPECS["phi3_long"]
    scaling = spec.config["rope_scaling"]
    reference = tmp_path / "reference"
    write_hf(reference, make_tensors(spec), {
        **spec.config, "rope_scaling": {**scaling, "long_factor": scaling["short_factor"]}})
    tokens = tokens_of("phi3_long")[:60]
    expected = mlx_logits(reference, tokens)
    for path in (tiny.hf("phi3_long"), tiny.gguf("phi3_long", "F32")):
        found = logits(path, tokens, tmp_path, "--exact", "--ctx", 64)
        assert worst_error(found, expected) < TOLERANCE
        assert worst_error(logits(path, tokens, tmp_path, "--exact", "--ctx", 65), expected) > 0.01


def test_a_bias_that_is_missing_is_told(tmp_path):
    """Qwen 2 without the bias of one projection is no Qwen 2."""
    tensors = make_tensors(SPECS["qwen2"])
    del tensors["model.layers.1.self_attn.k_proj.bias"]
    write_hf(tmp_path, tensors, SPECS["qwen2"].config)
    fails(4, "logits", tmp_path, "--tokens", "2,3", "-o", tmp_path / "out.npy",
          mentions=["model.layers.1.self_attn.k_proj.bias", "missing"])


def test_a_weight_without_a_place_is_told(tmp_path):
    """A bias that the family's forward pass has no use for is not left out silently."""
    tensors = make_tensors(SPECS["qwen2"])
    name = "model.layers.3.mlp.down_proj.bias"
    tensors[name] = np.zeros(256, np.float32)
    write_hf(tmp_path, tensors, SPECS["qwen2"].config)
    fails(4, "logits", tmp_path, "--tokens", "2,3", "-o", tmp_path / "out.npy",
          mentions=[name, "not part of a qwen2 model"])


def test_a_fused_matrix_of_the_wrong_height_is_told(tmp_path):
    tensors = make_tensors(SPECS["phi3_window"])
    name = "model.layers.2.self_attn.qkv_proj.weight"
    tensors[name] = tensors[name][:-1]
    write_hf(tmp_path, tensors, SPECS["phi3_window"].config)
    fails(4, "logits", tmp_path, "--tokens", "2,3", "-o", tmp_path / "out.npy",
          mentions=[name, 575, 576])


@pytest.mark.parametrize("config,kind,cache,layers,reason", [
    ({"model_type": "qwen3_5_text", "full_attention_interval": 4}, "recurrent", "recurrent",
     [0, 1, 2], "'linear_attention' layer: layers with a running state"),
    ({"model_type": "granitemoehybrid", "layer_types": ["mamba", "attention", "mamba", "mamba"]},
     "recurrent", "recurrent", [0, 2, 3], "'mamba' layer: layers with a running state"),
    ({"model_type": "nemotron_h", "hybrid_override_pattern": "M*M*"}, "recurrent", "recurrent",
     [0, 2], "'mamba' layer: layers with a running state"),
    ({"model_type": "nemotron_h", "hybrid_override_pattern": "-**E"}, "cacheless", "none", [0, 3],
     "layer: layers without attention are not supported yet"),
    ({"model_type": "jamba", "attn_layer_period": 4, "attn_layer_offset": 1}, "recurrent",
     "recurrent", [0, 2, 3], "'mamba' layer: layers with a running state"),
    ({"model_type": "lfm2", "full_attn_idxs": [1]}, "recurrent", "recurrent", [0, 2, 3],
     "'conv' layer: layers with a running state"),
    ({"model_type": "deepseek_v2", "kv_lora_rank": 512, "qk_rope_head_dim": 64}, "latent", "latent",
     [0, 1, 2, 3], "multi-head latent attention"),
    ({"model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_rope_head_dim": 64}, "latent", "latent",
     [0, 1, 2, 3], "multi-head latent attention"),
    ({"model_type": "kimi_linear", "kv_lora_rank": 512, "linear_attn_config": {
        "kda_layers": [1, 2, 3], "full_attn_layers": [4]}}, "recurrent", "recurrent", [0, 1, 2],
     "'linear_attention' layer: layers with a running state"),
    ({"model_type": "kimi_linear", "kv_lora_rank": 512, "linear_attn_config": {
        "kda_layers": [1, 2, 3], "full_attn_layers": [4]}}, "latent", "latent", [3],
     "multi-head latent attention"),
])
def test_layers_of_other_architectures_are_refused(config, kind, cache, layers, reason, tmp_path):
    """`plan` knows from config.json which layers cannot run: index, cache class, reason."""
    (tmp_path / "config.json").write_text(json.dumps({
        "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 4, "intermediate_size": 96, "vocab_size": 100,
        "max_position_embeddings": 1024, **config}))
    result = run("plan", tmp_path, "--json")
    assert result.returncode == 3, result.stderr
    plan = json.loads(result.stdout)
    assert [layer["index"] for layer in plan["layers"] if layer["kind"] == kind] == layers
    found = {r["layer"] for r in plan["refusals"]
             if r["cache"] == cache and r["feature"] == "run" and reason in r["reason"]}
    assert found == set(layers), plan["refusals"]
