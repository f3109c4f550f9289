"""`plan` of the published Gemma 4 shapes from config.json alone: every layer quantized, every window
kept, and bytes equal to what a page holds, counted by hand."""

import json
import pathlib
import shutil

import pytest

from ringkeep_cli import fails, ok, ok_json

CONFIGS = pathlib.Path(__file__).resolve().parents[1] / "golden" / "gemma4"
CONTEXT, CHUNK, PAGE = 131072, 512, 64

# Layers, of these full, layers that share, window, KV heads of sliding and of full layers.
SHAPES = {
    "e2b": (35, 7, 20, 512, 1, 1),
    "e4b": (42, 7, 18, 512, 2, 2),
    "12b": (48, 8, 0, 1024, 8, 1),
    "26b_a4b": (30, 5, 0, 1024, 8, 2),
    "31b": (60, 10, 0, 1024, 16, 4),
}
# Bytes of one row of one head: two a channel, or codes and one scale.
ROW = {"f16": lambda dim: 2 * dim, "8": lambda dim: dim + 2, "4": lambda dim: dim // 2 + 2}


def folder_of(name, tmp_path):
    shutil.copy(CONFIGS / f"{name}.json", tmp_path / "config.json")
    return tmp_path


def plan_of(name, codec, tmp_path):
    return ok_json("plan", folder_of(name, tmp_path), "--kv-bits", codec, "--kv-hot", "none",
                   "--ctx", CONTEXT)


@pytest.mark.parametrize("codec", sorted(ROW))
@pytest.mark.parametrize("name", sorted(SHAPES))
def test_bytes_of_every_layer(name, codec, tmp_path):
    count, full, sharing, window, sliding_heads, full_heads = SHAPES[name]
    plan = plan_of(name, codec, tmp_path)
    assert plan["runnable"] is True and plan["refusals"] == []
    layers = plan["layers"]
    assert len(layers) == count
    period = count // full
    kind_of = lambda i: "full" if i % period == period - 1 else "sliding"
    # Steps of one row see window - 1 earlier tokens: whole pages, and one that is begun.
    decode = {"full": CONTEXT // PAGE, "sliding": window // PAGE + 1}
    prefill = {"full": CONTEXT // PAGE, "sliding": -(-(window - 1 + CHUNK) // PAGE) + 1}
    per_token = {"sliding": sliding_heads * 2 * ROW[codec](256),
                 "full": full_heads * 2 * ROW[codec](512)}
    total = more = 0
    for i, layer in enumerate(layers):
        kind = kind_of(i)
        assert layer["window"] == (window if kind == "sliding" else None), i
        assert (layer["k"], layer["v"]) == (codec, codec), i
        if i >= count - sharing:
            # The last layer of the same kind that has a cache of its own.
            donor = max(j for j in range(count - sharing) if kind_of(j) == kind)
            assert (layer["kind"], layer["donor"], layer["bytes_per_token"]) == ("shared", donor, None)
            continue
        assert (layer["kind"], layer["donor"]) == (kind, None)
        assert layer["bytes_per_token"] == per_token[kind], i
        assert layer["max_tokens"] == decode[kind] * PAGE, i
        assert layer["max_bytes"] == decode[kind] * PAGE * per_token[kind], i
        total += layer["max_bytes"]
        more += (prefill[kind] - decode[kind]) * PAGE * per_token[kind]
    assert plan["totals"]["kv_bytes"] == total
    assert plan["totals"]["kv_prefill_bytes"] == more


def test_figures_of_the_26b(tmp_path):
    """The same sums, written out once."""
    f16 = plan_of("26b_a4b", "f16", tmp_path)["totals"]["kv_bytes"]
    assert f16 == 25 * 17 * 64 * 8 * 1024 + 5 * 131072 * 2 * 2048
    assert plan_of("26b_a4b", "8", tmp_path)["totals"]["kv_bytes"] == (
        25 * 17 * 64 * 8 * 516 + 5 * 131072 * 2 * 1028)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_values_from_keys_are_told(name, tmp_path):
    """Models that take V from K store both, and `plan` says of which layers and why."""
    notes = plan_of(name, "8", tmp_path)["notes"]
    text = ok("plan", tmp_path).decode()
    if name in ("e2b", "e4b"):
        assert notes == [] and "note:" not in text
        return
    count, full = SHAPES[name][:2]
    listed = ", ".join(str(i) for i in range(count) if i % 6 == 5)
    assert len(notes) == 1 and notes[0].startswith(f"layers {listed}: V is taken from the K")
    assert f"note: {notes[0]}" in text and notes[0].count(",") >= full - 1


@pytest.mark.parametrize("change,mentions", [
    ({"use_bidirectional_attention": "all"}, ["use_bidirectional_attention", "all"]),
    ({"vocab_size_per_layer_input": 1000}, ["vocab_size_per_layer_input is 1000"]),
    ({"layer_types": ["full_attention"] + ["sliding_attention"] * 34}, ["last layer"]),
    ({"enable_moe_block": True}, ["num_experts"]),
    ({"rope_parameters": {"full_attention": {"rope_theta": 1e6}}}, ["sliding_attention"]),
    ({"per_layer_config": {"4": {"hidden_size": 8}}}, ["per_layer_config: 4", "hidden_size"]),
    ({"per_layer_config": {"35": {"head_dim": 8}}}, ["\"35\" is no layer"]),
    ({"num_kv_shared_layers": 35}, ["num_kv_shared_layers"]),
    ({"num_kv_shared_layers": 32}, ["layer 4 shares a cache"]),
])
def test_what_cannot_be_read_is_named(change, mentions, tmp_path):
    config = json.loads((CONFIGS / "e2b.json").read_text())
    config["text_config"] |= change
    (tmp_path / "config.json").write_text(json.dumps(config))
    fails(4, "plan", tmp_path, mentions=mentions)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_as_transformers_saves_it(name, tmp_path):
    """transformers 5 writes per_layer_config in place of global_head_dim and
    num_global_key_value_heads, and every default: the same plan."""
    from transformers import AutoConfig

    expected = plan_of(name, "8", tmp_path)
    text = json.loads((CONFIGS / f"{name}.json").read_text())["text_config"]
    saved = AutoConfig.for_model(text.pop("model_type"), **text).to_dict()
    assert "per_layer_config" in saved and "global_head_dim" not in saved
    (tmp_path / "config.json").write_text(json.dumps(saved))
    assert ok_json("plan", tmp_path, "--kv-bits", "8", "--kv-hot", "none", "--ctx", CONTEXT) == expected
