"""`plan` of the published Gemma 3n shapes from config.json alone: which layers share, every window kept,
and bytes equal to what a page holds, counted by hand."""

import json
import pathlib

import pytest

from ringkeep_cli import fails, ok_json
from test_plan_gemma4 import PAGE, ROW

CONFIGS = pathlib.Path(__file__).resolve().parents[1] / "golden" / "gemma3n"
CONTEXT, CHUNK, WINDOW = 32768, 512, 512
LAYERS = {"e2b": 30, "e4b": 35}
OWNERS = 20  # of both: the first ones


def write(config, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def config_of(name):
    return json.loads((CONFIGS / f"{name}.json").read_text())


def plan_of(config, codec, tmp_path):
    return ok_json("plan", write(config, tmp_path), "--kv-bits", codec, "--kv-hot", "none", "--ctx", CONTEXT)


@pytest.mark.parametrize("codec", sorted(ROW))
@pytest.mark.parametrize("name", sorted(LAYERS))
def test_bytes_of_every_layer(name, codec, tmp_path):
    plan = plan_of(config_of(name), codec, tmp_path)
    assert plan["runnable"] is True and plan["refusals"] == []
    layers = plan["layers"]
    assert len(layers) == LAYERS[name]
    decode = {"full": CONTEXT // PAGE, "sliding": WINDOW // PAGE + 1}
    prefill = {"full": CONTEXT // PAGE, "sliding": -(-(WINDOW - 1 + CHUNK) // PAGE) + 1}
    per_token = 2 * 2 * ROW[codec](256)  # K and V of two heads
    total = more = 0
    for i, layer in enumerate(layers):
        kind = "full" if i % 5 == 4 else "sliding"
        assert layer["window"] == (WINDOW if kind == "sliding" else None), i
        assert (layer["k"], layer["v"]) == (codec, codec), i
        if i >= OWNERS:
            donor = 19 if kind == "full" else 18
            assert (layer["kind"], layer["donor"], layer["bytes_per_token"]) == ("shared", donor, None)
            continue
        assert (layer["kind"], layer["donor"]) == (kind, None)
        assert layer["bytes_per_token"] == per_token, i
        assert layer["max_tokens"] == decode[kind] * PAGE, i
        assert layer["max_bytes"] == decode[kind] * PAGE * per_token, i
        total += layer["max_bytes"]
        more += (prefill[kind] - decode[kind]) * PAGE * per_token
    assert plan["totals"]["kv_bytes"] == total
    assert plan["totals"]["kv_prefill_bytes"] == more


def test_figures(tmp_path):
    """The same sums, written out once: both models have the same caches."""
    for name in LAYERS:
        f16 = plan_of(config_of(name), "f16", tmp_path)["totals"]["kv_bytes"]
        assert f16 == 16 * 9 * 64 * 2048 + 4 * 32768 * 2048


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_as_transformers_saves_it(name, tmp_path):
    """transformers 5 writes rope_parameters and every default: the same plan."""
    from transformers import AutoConfig

    expected = plan_of(config_of(name), "8", tmp_path)
    text = config_of(name)["text_config"]
    saved = AutoConfig.for_model(text.pop("model_type"), **text).to_dict()
    assert "rope_parameters" in saved and "rope_theta" not in saved
    assert plan_of(saved, "8", tmp_path) == expected


def test_class_defaults_are_the_e4b(tmp_path):
    """What transformers assumes where config.json says nothing."""
    from transformers import AutoConfig

    saved = AutoConfig.for_model("gemma3n_text").to_dict()
    expected = plan_of(config_of("e4b"), "8", tmp_path)
    assert plan_of(saved, "8", tmp_path) == expected
    little = {"model_type": "gemma3n_text", "hidden_size": 2048, "num_hidden_layers": 35}
    assert plan_of(little, "8", tmp_path) == expected


@pytest.mark.parametrize("change,mentions", [
    ({"intermediate_size": [8192] * 29}, ["intermediate_size", "array of 30 numbers"]),
    ({"intermediate_size": [8192.5] * 30}, ["intermediate_size", "integers"]),
    ({"intermediate_size": [0] * 30}, ["intermediate_size", "from 1"]),
    ({"activation_sparsity_pattern": [0.95] * 10}, ["activation_sparsity_pattern", "array of 30"]),
    ({"activation_sparsity_pattern": [1.0] * 30}, ["activation_sparsity_pattern", "below 1"]),
    ({"activation_sparsity_pattern": 0.95}, ["activation_sparsity_pattern", "array of 30"]),
    ({"altup_num_inputs": 9}, ["altup_num_inputs"]),
    ({"altup_active_idx": 4}, ["altup_active_idx"]),
    ({"altup_coef_clip": -1}, ["altup_coef_clip"]),
    ({"laurel_rank": 0}, ["laurel_rank"]),
    ({"hidden_size_per_layer_input": 0}, ["hidden_size_per_layer_input"]),
    ({"num_kv_shared_layers": 30}, ["num_kv_shared_layers"]),
    ({"num_kv_shared_layers": 27}, ["layer 4 shares a cache"]),
    ({"use_bidirectional_attention": True}, ["use_bidirectional_attention"]),
    ({"hidden_activation": "relu"}, ["relu"]),
])
def test_what_cannot_be_read_is_named(change, mentions, tmp_path):
    config = config_of("e2b")
    config["text_config"] |= change
    fails(4, "plan", write(config, tmp_path), mentions=mentions)
