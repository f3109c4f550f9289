"""`convert`: what it writes is read by mlx-lm and here with the same logits, and plain rounding is
mlx-lm's bit for bit."""

import json
import shutil
import struct

import numpy as np
import pytest

from converting import both_agree, config_of, convert, mlx_convert, read
from make_tiny_model import make_tensors, write_hf
from ringkeep_cli import fails, ok, run
from tiny_specs import SPECS


@pytest.mark.parametrize("name,bits,group,dtype", [
    ("qwen3", 4, 64, "bfloat16"), ("llama_bias", 3, 32, "float16"), ("gemma3", 8, 32, "bfloat16"),
    ("phi3_long", 6, 64, None), ("gemma4_e", 2, 64, "float16"), ("llama3", 5, 32, "bfloat16")])
def test_min_max_is_what_mlx_lm_writes(name, bits, group, dtype, tiny, tmp_path):
    """Every tensor, byte for byte; and what mlx-lm wrote loads here with its own logits."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    mlx_convert(tiny.hf(name), theirs, bits, group, dtype)
    flags = ["--dtype", dtype] if dtype else []
    convert(tiny.hf(name), ours, "--bits", bits, "--group", group, "--rounding", "min-max",
            "--override", f".*={bits}:{group}", *flags)
    expected, found = read(theirs), read(ours)
    assert found.keys() == expected.keys()
    for tensor in expected:
        assert found[tensor] == expected[tensor], tensor
    wanted = config_of(theirs)["quantization"]
    assert {k: config_of(ours)["quantization"][k] for k in wanted} == wanted
    assert (both_agree(ours, name, tmp_path) == both_agree(theirs, name, tmp_path)).all()


@pytest.mark.parametrize("name", ["gemma3", "gemma4", "gemma4_e", "qwen3", "qwen3_tied", "llama_yarn",
                                  "mistral", "phi3_long", "smollm3", "olmo3", "cohere2",
                                  "ministral3"])
def test_round_trip(name, tiny, tmp_path):
    """4 bits by search: mlx-lm and ringkeep read the same model."""
    report = convert(tiny.hf(name), tmp_path / "out", "--bits", 4, "--group", 32)
    both_agree(tmp_path / "out", name, tmp_path)
    kinds = {row["kind"]: row for row in report["kinds"]}
    assert kinds["attention"]["stored"] == kinds["feed_forward"]["stored"] == ["4:32"]
    assert kinds["embedding"]["stored"] == ["6:32"]
    if not SPECS[name].config["tie_word_embeddings"]:
        assert kinds["lm_head"]["stored"] == ["6:32"]
    assert kinds["vector"]["stored"] == ["float32"]


def vision_checkpoint(folder, shards=1):
    """Gemma 3 with a tower: {name: tensor} as written."""
    spec = SPECS["gemma3"]
    rng = np.random.default_rng(3)
    tensors = {f"language_model.{k}": v for k, v in make_tensors(spec).items()}
    for layer in range(2):
        p = f"vision_tower.vision_model.encoder.layers.{layer}."
        for part in ("self_attn.q_proj", "self_attn.out_proj", "mlp.fc1"):
            tensors[f"{p}{part}.weight"] = rng.normal(size=(64, 64)).astype(np.float32)
            tensors[f"{p}{part}.bias"] = rng.normal(size=64).astype(np.float32)
    embeddings = "vision_tower.vision_model.embeddings."
    tensors[embeddings + "patch_embedding.weight"] = rng.normal(size=(64, 3, 4, 4)).astype(np.float32)
    tensors[embeddings + "position_embedding.weight"] = rng.normal(size=(16, 64)).astype(np.float32)
    tensors["multi_modal_projector.mm_input_projection_weight"] = rng.normal(
        size=(64, 64)).astype(np.float32)
    text = {k: v for k, v in spec.config.items() if k not in ("architectures", "torch_dtype")}
    write_hf(folder, tensors, {
        "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
        "vocab_size": text["vocab_size"], "text_config": text,
        "vision_config": {"hidden_size": 64, "model_type": "siglip_vision_model"},
        "torch_dtype": "float32"}, shards)
    return tensors


def test_vision_tower(tmp_path):
    """Carried through byte for byte, less what a rule quantizes; text runs here and in mlx-lm."""
    source, out = tmp_path / "source", tmp_path / "out"
    tensors = vision_checkpoint(source)
    report = convert(source, out, "--override", r"vision_tower.*q_proj=8:32")
    found = read(out)
    for name, tensor in tensors.items():
        if not name.startswith("language_model.") and "q_proj.weight" not in name:
            assert found[name] == ("F32", list(tensor.shape), tensor.tobytes()), name
    tower = "vision_tower.vision_model.encoder.layers.1.self_attn."
    assert found[tower + "q_proj.weight"][:2] == ("U32", [64, 16])
    quantization = config_of(out)["quantization"]
    assert quantization[tower + "q_proj"] == {"group_size": 32, "bits": 8}
    assert quantization[tower + "out_proj"] is False
    assert quantization["language_model.model.embed_tokens"] == {"group_size": 64, "bits": 6}
    assert config_of(out)["vision_config"] == config_of(source)["vision_config"]
    assert config_of(out)["quantization_config"] == quantization
    assert {r["kind"]: r["stored"] for r in report["kinds"]}["encoder"] == ["8:32", "float32"]
    both_agree(out, "gemma3", tmp_path)


# In 4 bits a router of the first has two best experts 2e-5 apart, at one token: a toss of noise.
@pytest.mark.parametrize("name,bits", [("llama4", 5), ("llama4_128", 4)])
def test_llama4(name, bits, tmp_path):
    """Stacks that multiply from the right are turned over: every tensor as mlx-lm writes it, byte for
    byte; by default the router is fine. What is kept as floats is turned over too."""
    import tiny_llama4

    source, theirs, ours = tmp_path / "source", tmp_path / "theirs", tmp_path / "ours"
    tensors, config = tiny_llama4.nested(make_tensors(SPECS[name]), SPECS[name].config)
    write_hf(source, tensors, {**config, "torch_dtype": "float32"})
    mlx_convert(source, theirs, bits, 32)
    convert(source, ours, "--bits", bits, "--group", 32, "--rounding", "min-max",
            "--override", f".*={bits}:32")
    expected, found = read(theirs), read(ours)
    assert found.keys() == expected.keys()
    for tensor in expected:
        assert found[tensor] == expected[tensor], tensor
    both_agree(ours, name, tmp_path)

    report = convert(source, tmp_path / "fine", "--bits", 4, "--group", 32)
    kinds = {row["kind"]: row["stored"] for row in report["kinds"]}
    assert kinds["experts"] == kinds["feed_forward"] == kinds["attention"] == ["4:32"]
    assert kinds["router"] == ["8:64"]
    both_agree(tmp_path / "fine", name, tmp_path)

    convert(source, tmp_path / "kept", "--override", r"feed_forward\.experts=keep",
            "--override", ".*=8:32", "--override", r"feed_forward\.experts=keep")
    kept = read(tmp_path / "kept")
    for tensor, values in tiny_llama4.stacked(tensors).items():
        if ".experts." in tensor:
            assert kept[tensor] == ("F32", list(values.shape), values.tobytes()), tensor


def test_overrides(tiny, tmp_path):
    """The last rule that matches counts; what a rule keeps is kept; mixtures load everywhere."""
    out = tmp_path / "out"
    report = convert(tiny.hf("qwen3"), out, "--bits", 3, "--override", "self_attn=5:32",
                     "--override", r"layers\.[01]\..*v_proj$=8", "--override", "layers.1.mlp=keep",
                     "--override", "lm_head=2:128")
    stored = {m["name"]: m["stored"] for m in report["modules"]}
    assert stored["model.layers.0.self_attn.q_proj"] == "5:32"
    assert stored["model.layers.0.self_attn.v_proj"] == "8:64"
    assert stored["model.layers.2.self_attn.v_proj"] == "5:32"
    assert stored["model.layers.1.mlp.up_proj"] == "float32"
    assert stored["model.layers.2.mlp.up_proj"] == "3:64"
    assert stored["lm_head"] == "2:128"
    assert stored["model.embed_tokens"] == "6:64"
    quantization = config_of(out)["quantization"]
    assert quantization["model.layers.1.mlp.up_proj"] is False
    assert "model.layers.2.mlp.up_proj" not in quantization
    both_agree(out, "qwen3", tmp_path)


@pytest.mark.parametrize("rule,mentions", [
    ("q_proj", ["REGEX=BITS"]), ("q_proj=7", ["q_proj=7", "2, 3, 4, 5, 6 or 8"]),
    ("q_proj=4:48", ["32, 64 or 128"]), ("(q_proj=4", ["not a regular expression"]),
    ("q_prj=4", ["matches no module"]), ("norm=4", ["matches no module"]),
    ("down_proj=4:128", ["192 columns", "groups of 128"])])
def test_rules_that_are_none(rule, mentions, tiny, tmp_path):
    fails(2, "convert", tiny.hf("qwen3"), tmp_path / "out", "--override", rule, mentions=mentions)
    assert list(tmp_path.iterdir()) == []


def test_columns_that_the_group_does_not_divide_are_kept(tiny, tmp_path):
    """As mlx-lm does, and it is said."""
    result = run("convert", tiny.hf("qwen3"), tmp_path / "out", "--group", 128)
    assert result.returncode == 0 and b"mlp.down_proj: kept" in result.stderr
    assert config_of(tmp_path / "out")["quantization"]["model.layers.0.mlp.down_proj"] is False
    both_agree(tmp_path / "out", "qwen3", tmp_path)


def test_shards_and_files(tiny, tmp_path):
    """Shards within their size, an index of all, the other files copied, weights not."""
    source, out = tmp_path / "source", tmp_path / "made" / "out"
    shutil.copytree(tiny.hf("qwen3", 3), source)
    others = {"chat_template.jinja": "{{ x }}", "LICENSE": "mine", "generation_config.json": "{}"}
    for name, text in others.items():
        (source / name).write_text(text)
    for name in ("pytorch_model.bin", ".gitattributes", "consolidated.safetensors"):
        (source / name).write_text("no")
    size = 40_000
    report = convert(source, out, "--shard-size", size)
    names = [s["file"] for s in report["shards"]]
    assert len(names) > 3 and names[0] == f"model-00001-of-{len(names):05d}.safetensors"
    assert {p.name for p in out.iterdir()} == {
        *names, *others, "config.json", "model.safetensors.index.json"}
    index = json.loads((out / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == read(out).keys()
    assert index["metadata"]["total_size"] == sum(len(t[2]) for t in read(out).values())
    assert index["metadata"]["total_parameters"] == sum(
        t.size for t in make_tensors(SPECS["qwen3"]).values())
    for shard in report["shards"]:
        inside = [n for n, f in index["weight_map"].items() if f == shard["file"]]
        modules = {n.rsplit(".", 1)[0] for n in inside}
        assert shard["bytes"] <= size or len(modules) == 1
    assert report["copied"] == sorted(others)
    whole = tmp_path / "whole"
    convert(source, whole)
    assert read(whole) == read(out)
    both_agree(out, "qwen3", tmp_path)


def test_dry_run_tells_the_bytes_without_reading_weights(tiny, tmp_path):
    """Of 64 GB that are not there (a sparse file), at once; of a small model, exactly."""
    dry = convert(tiny.hf("llama_bias"), tmp_path / "out", "--dry-run", "--bits", 5)
    assert list(tmp_path.iterdir()) == []
    real = convert(tiny.hf("llama_bias"), tmp_path / "out", "--bits", 5)
    assert dry["total"]["bytes"] == sum(len(t[2]) for t in read(tmp_path / "out").values())
    for key in ("kinds", "modules"):
        for a, b in zip(dry[key], real[key]):
            assert a["bytes"] == b["bytes"] and a["stored"] == b["stored"]
    rows = 64 * 10**9 // 2 // 128
    header = json.dumps({"model.embed_tokens.weight": {
        "dtype": "BF16", "shape": [rows, 128], "data_offsets": [0, rows * 256]}}).encode()
    huge = tmp_path / "huge"
    huge.mkdir()
    config = {**SPECS["llama_yarn"].config, "torch_dtype": "bfloat16"}
    (huge / "config.json").write_text(json.dumps(config))
    with open(huge / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + rows * 256)
    report = convert(huge, tmp_path / "no", "--dry-run", "--bits", 8, timeout=20)
    assert report["total"]["weights"] == rows * 128
    assert report["total"]["bits_per_weight"] == 8.5
    assert len(report["shards"]) == 1


def test_search_is_better_than_min_max(tiny, tmp_path):
    """By the error that is told, and by mlx-lm's dequantized weights."""
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    original = make_tensors(SPECS["llama3"])
    errors = {}
    for rounding in ("min-max", "search"):
        out = tmp_path / rounding
        report = convert(tiny.hf("llama3"), out, "--bits", 3, "--dtype", "float16", "--rounding", rounding)
        weights = mx.load(str(out / "model.safetensors"))
        squared = total = 0.0
        for name, tensor in original.items():
            module = name.removesuffix(".weight")
            if ".self_attn." not in name:
                continue
            restored = np.array(mx.dequantize(
                weights[name], weights[module + ".scales"], weights[module + ".biases"],
                group_size=64, bits=3).astype(mx.float32))
            squared += ((restored - tensor).astype(np.float64)**2).sum()
            total += (tensor.astype(np.float64)**2).sum()
        errors[rounding] = np.sqrt(squared / total)
        told = {r["kind"]: r["weight_error"] for r in report["kinds"]}["attention"]
        assert told == pytest.approx(errors[rounding], rel=2e-3)
    assert errors["search"] < 0.99 * errors["min-max"], errors


def test_bf16_and_text_output(tiny, tmp_path):
    """A float16 source: its own type unless asked; the table has every kind and the total."""
    source = tmp_path / "source"
    tensors = {k: v.astype(np.float16) for k, v in make_tensors(SPECS["llama_bias"]).items()}
    write_hf(source, tensors, {**SPECS["llama_bias"].config, "torch_dtype": "float16"})
    text = ok("convert", source, tmp_path / "out").decode()
    for word in ("embedding", "attention", "feed_forward", "vector", "total", "read back"):
        assert word in text
    assert read(tmp_path / "out")["model.layers.0.mlp.up_proj.scales"][0] == "F16"
    assert config_of(tmp_path / "out")["torch_dtype"] == "float16"
    convert(source, tmp_path / "bf16", "--dtype", "bf16")
    assert {t[0] for t in read(tmp_path / "bf16").values()} == {"U32", "BF16"}
    assert config_of(tmp_path / "bf16")["torch_dtype"] == "bfloat16"
    both_agree(tmp_path / "bf16", "llama_bias", tmp_path)
