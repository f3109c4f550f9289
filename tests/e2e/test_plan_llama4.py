"""`plan` of the published Llama 4 shapes from config.json alone: which layers see their chunk and
which everything, and bytes equal to what a page holds, counted by hand."""

import json
import pathlib
import shutil

import pytest

from ringkeep_cli import fails, ok, ok_json

CONFIGS = pathlib.Path(__file__).resolve().parents[1] / "golden" / "llama4"
LAYERS, CHUNK, HEADS, DIM = 48, 8192, 8, 128
CONTEXT, STEP, PAGE = 131072, 512, 64
# Bytes of one row of one head: two a channel, or codes and one scale.
ROW = {"f16": 2 * DIM, "8": DIM + 2, "4": DIM // 2 + 2}


def folder_of(name, tmp_path, change=()):
    config = json.loads((CONFIGS / f"{name}.json").read_text())
    config["text_config"].update(change)
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def plan_of(folder, codec, *flags, context=CONTEXT):
    return ok_json("plan", folder, "--kv-bits", codec, "--kv-hot", "none", "--ctx", context, *flags)


@pytest.mark.parametrize("codec", sorted(ROW))
@pytest.mark.parametrize("name", ["scout", "maverick"])
def test_bytes_of_every_layer(name, codec, tmp_path):
    """Chunks are whole pages: in decode a sequence holds one chunk at most, and while a step of a
    prompt is open what the step adds."""
    plan = plan_of(folder_of(name, tmp_path), codec)
    assert plan["runnable"] is True and plan["refusals"] == []
    assert len(plan["layers"]) == LAYERS
    per_token = 2 * HEADS * ROW[codec]
    for i, layer in enumerate(plan["layers"]):
        kind, tokens = ("full", CONTEXT) if i % 4 == 3 else ("chunked", CHUNK)
        assert (layer["kind"], layer["window"]) == (kind, None if kind == "full" else CHUNK), i
        assert layer["cache"] == kind and (layer["k"], layer["v"]) == (codec, codec), i
        assert layer["bytes_per_token"] == per_token and layer["max_tokens"] == tokens, i
        assert layer["max_bytes"] == tokens * per_token, i
    totals = plan["totals"]
    assert totals["kv_bytes"] == (12 * CONTEXT + 36 * CHUNK) * per_token
    assert totals["kv_prefill_bytes"] == 36 * -(-(STEP - 1) // PAGE) * PAGE * per_token


def test_figures_of_scout(tmp_path):
    """The same sums, written out once; with the whole trained context, full layers alone grow."""
    folder = folder_of("scout", tmp_path)
    assert plan_of(folder, "f16")["totals"]["kv_bytes"] == 7650410496
    assert plan_of(folder, "8")["totals"]["kv_bytes"] == 3884974080
    ten = plan_of(folder, "8", context=10 * CONTEXT)["totals"]["kv_bytes"]
    assert ten == (12 * 10 * CONTEXT + 36 * CHUNK) * 2 * 8 * 130


@pytest.mark.parametrize("name", ["scout", "maverick"])
def test_codecs_by_kind_and_the_hot_tier(name, tmp_path):
    """Chunked layers take the codec of sliding ones; below 8 bits the newest two pages count twice."""
    folder = folder_of(name, tmp_path)
    by_kind = plan_of(folder, "full=4+sliding=8")["totals"]["kv_bytes"]
    assert by_kind == 12 * CONTEXT * 16 * 66 + 36 * CHUNK * 16 * 130
    hot = ok_json("plan", folder, "--kv-bits", "4", "--ctx", CONTEXT)["totals"]["kv_bytes"]
    assert hot == plan_of(folder, "4")["totals"]["kv_bytes"] + 48 * 2 * PAGE * 16 * 130


def test_without_experts(tmp_path):
    """As MobileLLM: an empty list of layers with experts, beside numbers that then say nothing."""
    folder = folder_of("scout", tmp_path, {"moe_layers": [], "interleave_moe_layer_step": 0,
                                           "num_local_experts": 0, "num_experts_per_tok": 0})
    assert plan_of(folder, "8")["totals"]["kv_bytes"] == 3884974080


def test_the_bound_of_the_context(tmp_path):
    """Full layers can be bounded, and chunks then stay as they are, or refuse."""
    folder = folder_of("scout", tmp_path)
    plan = ok_json("plan", folder, "--max-kv-size", 16384, "--keep", 4)
    assert plan["runnable"] and plan["layers"][3]["cache"] == "ring+keep"
    assert plan["layers"][0]["max_tokens"] == CHUNK
    stderr = fails(3, "plan", folder, "--max-kv-size", 4096, mentions=["max-kv-size", "8192"])
    assert "layer 0" in stderr or "layers 0" in stderr or "0-2" in stderr


@pytest.mark.parametrize("name", ["scout", "maverick"])
def test_as_transformers_saves_it(name, tmp_path):
    """transformers 5 writes layer_types, moe_layers, rope_parameters and every default: the same
    plan."""
    from transformers import AutoConfig

    folder = folder_of(name, tmp_path)
    expected = plan_of(folder, "8")
    text = json.loads((CONFIGS / f"{name}.json").read_text())["text_config"]
    text["attn_temperature_tuning"] = True
    saved = AutoConfig.for_model(text.pop("model_type"), **text).to_dict()
    assert len(saved["layer_types"]) == LAYERS and len(saved["no_rope_layers"]) == LAYERS
    (tmp_path / "config.json").write_text(json.dumps(saved))
    assert plan_of(folder, "8") == expected


@pytest.mark.parametrize("method", ["compressed-tensors", "fbgemm_fp8", "bitsandbytes"])
def test_packed_otherwise(method, tmp_path):
    """The files of 8 and 4 bits that are published beside."""
    folder = folder_of("maverick", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": method, "format": "float-quantized"}
    (folder / "config.json").write_text(json.dumps(config))
    fails(4, "plan", folder, mentions=[method, "not supported"])


@pytest.mark.parametrize("change,mentions", [
    ({"no_rope_layers": [1, 0]}, ["no_rope_layers", "48"]),
    ({"no_rope_layers": ["a"] * 48}, ["no_rope_layers[0]"]),
    ({"moe_layers": [48]}, ["moe_layers", "48 layers"]),
    ({"moe_layers": 3}, ["moe_layers", "array"]),
    ({"interleave_moe_layer_step": 0}, ["interleave_moe_layer_step"]),
    ({"num_experts_per_tok": 17}, ["num_experts_per_tok"]),
    ({"attention_chunk_size": 0}, ["attention_chunk_size"]),
    ({"attn_temperature_tuning": "on"}, ["attn_temperature_tuning"]),
    ({"floor_scale": 0}, ["floor_scale"]),
    ({"attn_scale": -1}, ["attn_scale"]),
    ({"use_qk_norm": 1}, ["use_qk_norm"]),
    ({"hidden_act": "gelu"}, ["gelu"]),
    ({"layer_types": ["linear_attention"] + ["full_attention"] * 46}, ["layer_types", "47"]),
    ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 2.0,
                       "high_freq_factor": 1.0, "original_max_position_embeddings": 8192}},
     ["high_freq_factor"]),
])
def test_what_cannot_be_read_is_named(change, mentions, tmp_path):
    fails(4, "plan", folder_of("scout", tmp_path, change), mentions=mentions)
