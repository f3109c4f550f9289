"""Gemma 3n: caches of every width near f16, the same bits however the work is cut, and checkpoints as
they are published: towers beside the text, sharing layers with projections of their own."""

import json
import re

import numpy as np
import pytest

from make_tiny_model import make_tensors, test_tokens as fixed_tokens, write_hf, write_mlx
from oracles import mlx_logits
from ringkeep_cli import fails, logits, ok_json, run, worst_error
from tiny_gemma3n import first_shared
from tiny_specs import SPECS, VOCAB, WINDOW

NAMES = ["gemma3n", "gemma3n_odd"]
TOKENS = 4 * WINDOW + 60  # pages of 64 fill and retire, and leave the hot tier


def tokens_of(name):
    return tuple(fixed_tokens(SPECS[name], TOKENS))


@pytest.mark.parametrize("codec,tolerance", [("8", 0.1), ("4", 0.3), ("full=8+sliding=4 --kv-hot none", 0.6)])
@pytest.mark.parametrize("name", NAMES)
def test_quantized_caches(name, codec, tolerance, tiny, tmp_path):
    """Far below what unrelated logits differ by (5 spreads), and not f16 in disguise."""
    tokens = tokens_of(name)
    found = logits(tiny.hf(name), tokens, tmp_path, "--exact", "--kv-bits", *codec.split())
    assert 5e-3 < worst_error(found, mlx_logits(tiny.hf(name), tokens)) < tolerance


@pytest.mark.parametrize("codec", ["f16", "8", "4", "K8V3", "affine4:64", "4 --quantized-kv-start 50"])
@pytest.mark.parametrize("name", NAMES)
def test_chunks_and_threads(name, codec, tiny, tmp_path):
    cut = lambda chunk, threads: logits(tiny.hf(name), tokens_of(name), tmp_path, "--kv-bits",
                                        *codec.split(), "--chunk", chunk, "--threads", threads)
    whole = cut(512, 1)
    for chunk, threads in [(512, 2), (1, 1), (7, 2), (64, 2)]:
        assert (cut(chunk, threads).view(np.uint32) == whole.view(np.uint32)).all(), (chunk, threads)


@pytest.mark.parametrize("name", NAMES)
def test_gguf_equals_safetensors(name, tiny, tmp_path):
    """The same weights in both formats, bit for bit: also with a cache that is balanced."""
    if name == "gemma3n_odd":
        # The format has no key for altup_correct_scale: files have the factors, and they are used.
        spec = SPECS[name]
        scaled = {**spec.config, "altup_correct_scale": True}
        write_hf(tmp_path / "hf", make_tensors(spec), scaled)
        hf = tmp_path / "hf"
    else:
        hf = tiny.hf(name)
    for codec in ("f16", "4"):
        of = lambda path: logits(path, tokens_of(name), tmp_path, "--kv-bits", codec)
        assert (of(tiny.gguf(name, "F32")) == of(hf)).all()


def test_maps_are_clipped(tmp_path):
    """A bound that most weights of AltUp's maps exceed."""
    spec, tokens = SPECS["gemma3n"], tokens_of("gemma3n")
    config = {**spec.config, "altup_coef_clip": 0.05}
    write_hf(tmp_path / "clipped", make_tensors(spec), config)
    write_hf(tmp_path / "plain", make_tensors(spec), {**config, "altup_coef_clip": None})
    found, expected = (f(tmp_path / "clipped", tokens) for f in (
        lambda *a: logits(*a, tmp_path, "--exact"), mlx_logits))
    assert worst_error(found, expected) < 2e-3
    assert worst_error(logits(tmp_path / "plain", tokens, tmp_path, "--exact"), expected) > 0.3


def test_tokens_beyond_the_table(tmp_path):
    """Per-layer embeddings of fewer tokens than the vocabulary, as published: row 0 for the others."""
    spec, tokens, name = SPECS["gemma3n"], tokens_of("gemma3n"), "model.embed_tokens_per_layer.weight"
    rows = VOCAB - 20
    assert sum(token >= rows for token in tokens) > 20
    tensors = make_tensors(spec)
    tensors[name] = tensors[name][:rows]
    write_hf(tmp_path / "hf", tensors, {**spec.config, "vocab_size_per_layer_input": rows})
    found = logits(tmp_path / "hf", tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(tmp_path / "hf", tokens)) < 2e-3


def published(name):
    """(tensors, towers, config) as in a multimodal checkpoint; sharing layers have K and V of zeros."""
    spec = SPECS[name]
    tensors = make_tensors(spec)
    dim, rows = spec.config["head_dim"], spec.config["num_key_value_heads"] * spec.config["head_dim"]
    for i in range(first_shared(spec.config), spec.config["num_hidden_layers"]):
        p = f"model.layers.{i}.self_attn."
        tensors |= {f"{p}k_proj.weight": np.zeros((rows, 64), np.float32),
                    f"{p}v_proj.weight": np.zeros((rows, 64), np.float32),
                    f"{p}k_norm.weight": np.ones(dim, np.float32)}
    rng = np.random.default_rng(1)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
    towers = {"vision_tower.timm_model.conv_stem.conv.weight": draw(8, 3, 3, 3),
              "vision_tower.timm_model.blocks.0.0.conv_exp.weight": draw(64, 64, 1, 1),
              "audio_tower.conformer.0.attention.attn.q_proj.weight": draw(64, 64),
              "audio_tower.subsample_conv_projection.conv_0.conv.weight": draw(8, 1, 3, 3),
              "embed_vision.embedding.weight": draw(8, 64),
              "embed_vision.embedding_projection.weight": draw(64, 64),
              "embed_audio.hard_embedding_norm.weight": draw(64)}
    config = {"architectures": ["Gemma3nForConditionalGeneration"], "model_type": "gemma3n",
              "vocab_size": VOCAB, "text_config": spec.config,
              "vision_config": {"model_type": "gemma3n_vision", "hidden_size": 64},
              "audio_config": {"model_type": "gemma3n_audio", "hidden_size": 64}}
    return tensors, towers, config


def nested(tensors):
    return {f"model.language_model.{n.removeprefix('model.')}": t for n, t in tensors.items()}


@pytest.mark.parametrize("name", NAMES)
def test_multimodal_folders(name, tiny, tmp_path):
    """Text inside model.language_model; what belongs to the towers is left, nothing else."""
    tensors, towers, config = published(name)
    write_hf(tmp_path / "nested", nested(tensors) | {f"model.{n}": t for n, t in towers.items()}, config)
    tokens = tokens_of(name)
    assert (logits(tmp_path / "nested", tokens, tmp_path) == logits(tiny.hf(name), tokens, tmp_path)).all()


@pytest.mark.parametrize("prefix", ["model.language_model.", "language_model.model."])
@pytest.mark.parametrize("name", NAMES)
def test_mlx_folders(name, prefix, tmp_path):
    """As mlx-lm and mlx-vlm write them; bits of one module apart."""
    tensors, towers, config = published(name)
    inner = lambda n: prefix + n.removeprefix("model.")
    down = "layers.1.mlp.down_proj"
    for folder, name_of in (("mlx", nested), ("vlm", lambda t: {inner(n): x for n, x in t.items()})):
        overrides = {m + down: (8, 64) for m in (
            "model.language_model." if folder == "mlx" else prefix,)}
        extra = {} if folder == "mlx" else {n: t for n, t in towers.items() if t.ndim != 2}
        write_mlx(tmp_path / folder, name_of(tensors) | extra, config, 4, 32, overrides)
    tokens = tokens_of(name)
    found = logits(tmp_path / "vlm", tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(tmp_path / "mlx", tokens)) < 2e-3


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
@pytest.mark.parametrize("name", NAMES)
def test_weights_are_as_planned(name, kind, tiny):
    """`plan` says what loading takes: every tensor but the table of per-layer embeddings, which
    stays in its file."""
    model = tiny.gguf(name, kind)
    planned = ok_json("plan", model)["totals"]["weights_bytes"]
    log = run("run", model, "-v", "--raw", "-p", "a", "-n", 1).stderr.decode()
    assert planned == int(re.search(r"loaded: (\d+) ", log).group(1)), log
    if kind != "F32":
        return
    tensors = make_tensors(SPECS[name])
    rest = sum(t.nbytes for n, t in tensors.items() if "per_layer.weight" not in n)
    assert rest <= planned < rest * 1.05  # a router's few rows are padded to a block
    assert planned == ok_json("plan", tiny.hf(name))["totals"]["weights_bytes"] + (
        0 if SPECS[name].config["altup_correct_scale"] else
        SPECS[name].config["num_hidden_layers"] * 64 * 4)


@pytest.mark.parametrize("extra,mentions", [
    ("model.layers.2.self_attn.sinks", ["model.layers.2.self_attn.sinks", "gemma3n"]),
    ("model.altup_projections.3.weight", ["model.altup_projections.3.weight"]),
])
def test_unknown_tensors_are_refused(extra, mentions, tmp_path):
    spec = SPECS["gemma3n"]
    write_hf(tmp_path, make_tensors(spec) | {extra: np.zeros((64, 64), np.float32)}, spec.config)
    fails(4, "logits", tmp_path, "--tokens", "2,5", "-o", tmp_path / "x.npy", mentions=mentions)


@pytest.mark.parametrize("part", [
    "altup_projections.2.weight", "altup_unembed_projections.0.weight", "layers.6.laurel.linear_left.weight",
    "layers.3.altup.prediction_coefs.weight", "layers.3.altup.correct_output_scale",
    "layers.4.self_attn.k_norm.weight"])
def test_missing_tensors_are_named(part, tmp_path):
    spec, name = SPECS["gemma3n"], f"model.{part}"
    write_hf(tmp_path, {n: t for n, t in make_tensors(spec).items() if n != name}, spec.config)
    fails(4, "logits", tmp_path, "--tokens", "2,5", "-o", tmp_path / "x.npy", mentions=[name])


def test_stacks_of_gguf_files(tmp_path):
    """AltUp's matrices are one tensor there; a stack of another depth is named."""
    from tiny_gguf import write_gguf

    spec = SPECS["gemma3n"]
    tensors = {n: t for n, t in make_tensors(spec).items()}
    tensors["model.altup_projections.2.weight"] = tensors["model.altup_projections.2.weight"][:, :32]
    tensors = {n: (t[:, :32] if "altup_projections" in n else t) for n, t in tensors.items()}
    write_gguf(tmp_path / "x.gguf", spec, tensors, "F32")
    fails(4, "logits", tmp_path / "x.gguf", "--tokens", "2,5", "-o", tmp_path / "x.npy",
          mentions=["altup_proj.weight", "[3, 64, 32]", "[3, 64, 64]"])


def test_convert(tmp_path):
    """Per-layer tables by --bits, AltUp and LAuReL in 8 bits, maps and towers kept; mlx-lm reads it."""
    tensors, towers, config = published("gemma3n")
    write_hf(tmp_path / "source", nested(tensors) | {f"model.{n}": t for n, t in towers.items()}, config)
    report = ok_json("convert", tmp_path / "source", tmp_path / "out", "--bits", 4, "--group", 32)
    kinds = {row["kind"]: row["stored"] for row in report["kinds"]}
    assert kinds["attention"] == kinds["feed_forward"] == kinds["layer_embedding"] == ["4:32"]
    assert kinds["embedding"] == ["6:32"] and kinds["encoder"] == ["float32"]
    stored = json.loads((tmp_path / "out" / "config.json").read_text())["quantization"]
    at = lambda module: stored[f"model.language_model.{module}"]
    for module in ("altup_projections.1", "layers.0.altup.modality_router", "layers.2.laurel.linear_left"):
        assert at(module) == {"group_size": 64, "bits": 8}, module
    assert at("layers.2.laurel.linear_right") is False  # 32 columns here, 64 in the published models
    assert not any("coefs" in key for key in stored)
    tokens = tokens_of("gemma3n")
    found = logits(tmp_path / "out", tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(tmp_path / "out", tokens)) < 2e-3
    exact = mlx_logits(tmp_path / "source", tokens)
    assert 0.05 < worst_error(found, exact) < 4


def test_weights_quantized_when_loaded(tiny, tmp_path):
    tokens = tokens_of("gemma3n")
    found = logits(tiny.hf("gemma3n"), tokens, tmp_path, "--exact", "--weight-bits", 8, "--weight-group", 32)
    assert 1e-3 < worst_error(found, mlx_logits(tiny.hf("gemma3n"), tokens)) < 0.3
