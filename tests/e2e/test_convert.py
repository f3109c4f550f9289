"""`convert`: what it writes is read by mlx-lm and here with the same logits, plain rounding is
mlx-lm's bit for bit, and nothing that goes wrong on the way leaves a wrong model behind."""

import hashlib
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import time

import numpy as np
import pytest

from make_tiny_model import make_tensors, test_tokens as fixed_tokens, write_hf
from oracles import mlx_logits
from ringkeep_cli import BINARY, fails, logits, ok, ok_json, run, worst_error
from tiny_specs import SPECS, WINDOW

TOLERANCE = 2e-3
TOKENS = 4 * WINDOW + 12


def convert(source, destination, *flags, **options):
    return ok_json("convert", source, destination, *flags, **options)


def read(folder):
    """All tensors by name, raw: (dtype, shape, bytes)."""
    tensors = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        data = path.read_bytes()
        size, = struct.unpack("<Q", data[:8])
        for name, entry in json.loads(data[8:8 + size]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                tensors[name] = (entry["dtype"], entry["shape"],
                                 data[8 + size + begin:8 + size + end])
    return tensors


def config_of(folder):
    return json.loads((pathlib.Path(folder) / "config.json").read_text())


def hashes(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def both_agree(folder, name, tmp_path):
    tokens = tuple(fixed_tokens(SPECS[name], TOKENS))
    found = logits(folder, tokens, tmp_path, "--exact")
    assert worst_error(found, mlx_logits(folder, tokens)) < TOLERANCE
    return found


def mlx_convert(source, folder, bits, group, dtype=None):
    """What mlx_lm.convert does, less the tokenizer, which tiny models have none of."""
    import mlx.core as mx
    from mlx.utils import tree_map
    from mlx_lm import utils

    mx.set_default_device(mx.cpu)
    model, config = utils.load_model(pathlib.Path(source))
    if dtype:
        model.update(tree_map(lambda v: v.astype(getattr(mx, dtype)), model.parameters()))
    model, config = utils.quantize_model(model, config, group, bits)
    utils.save_model(folder, model)
    utils.save_config(config, folder / "config.json")


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


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A checkpoint that takes some seconds: (folder, how it is converted whole)."""
    folder = tmp_path_factory.mktemp("large")
    config = {**SPECS["llama_yarn"].config, "hidden_size": 512, "intermediate_size": 2048,
              "num_hidden_layers": 6, "torch_dtype": "float16", "tie_word_embeddings": False}
    rng = np.random.default_rng(1)
    shapes = {"self_attn.q_proj": (320, 512), "self_attn.k_proj": (160, 512),
              "self_attn.v_proj": (160, 512), "self_attn.o_proj": (512, 320),
              "mlp.gate_proj": (2048, 512), "mlp.up_proj": (2048, 512), "mlp.down_proj": (512, 2048)}
    tensors = {f"model.layers.{i}.{n}.weight": rng.normal(size=s).astype(np.float16)
               for i in range(6) for n, s in shapes.items()}
    for i in range(6):
        for n in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{i}.{n}.weight"] = np.ones(512, np.float16)
    tensors["model.norm.weight"] = np.ones(512, np.float16)
    tensors["model.embed_tokens.weight"] = rng.normal(size=(96, 512)).astype(np.float16)
    tensors["lm_head.weight"] = rng.normal(size=(96, 512)).astype(np.float16)
    write_hf(folder / "source", tensors, config, shards=2)
    flags = ["--shard-size", "1M", "--threads", "1"]
    convert(folder / "source", folder / "whole", *flags)
    return folder / "source", folder / "whole", flags


def killed(source, out, flags, shards):
    """kill -9 once `shards` of them are recorded."""
    process = subprocess.Popen([BINARY, "convert", str(source), str(out), *map(str, flags)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    state = pathlib.Path(f"{out}.converting") / "state.json"
    until = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < until:
        if state.exists() and len(json.loads(state.read_text())["shards"]) >= shards:
            break
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it was through before it could be killed"
    assert not out.exists()
    return pathlib.Path(f"{out}.converting")


def test_goes_on_after_a_kill(large, tmp_path):
    """Byte for byte what an uninterrupted run makes; a damaged shard is made again."""
    source, whole, flags = large
    out = tmp_path / "out"
    space = killed(source, out, flags, 3)
    done = sorted(json.loads((space / "state.json").read_text())["shards"])
    damaged = space / "model" / done[1]
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    (space / "model" / "stray.partial").write_text("left by the kill")
    result = run("convert", source, out, *flags, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["resumed_shards"] == len(done) - 1
    assert f"{damaged}: written again".encode() in result.stderr
    assert hashes(out) == hashes(whole)
    assert not space.exists()


def test_goes_on_only_with_the_same_options(large, tmp_path):
    source, whole, flags = large
    out = tmp_path / "out"
    space = killed(source, out, flags, 2)
    for more, mentions in [
            (["--bits", 3], ["--bits 4", "now it is 3"]), (["--group", 32], ["--group"]),
            (["--override", "q_proj=8"], ["--override none"]), (["--dtype", "f32"], ["--dtype"]),
            (["--rounding", "min-max"], ["--rounding"]), (["--shard-size", "2M"], ["--shard-size"])]:
        changed = [f for f in flags if more[0] != "--shard-size" or f not in ("--shard-size", "1M")]
        fails(2, "convert", source, out, *changed, *more, mentions=[space, "--restart", *mentions])
    other = tmp_path / "other"
    shutil.copytree(source, other)
    os.utime(other / "model-00002-of-00002.safetensors", (1, 1))
    fails(2, "convert", other, out, *flags, mentions=["model-00002-of-00002", "time 1.0"])
    before = json.loads((space / "state.json").read_text())["shards"]
    assert len(before) >= 2
    report = convert(source, out, *flags, "--restart")
    assert report["resumed_shards"] == 0
    assert hashes(out) == hashes(whole)


def test_interrupt_leaves_what_is_done(large, tmp_path):
    source, whole, flags = large
    out = tmp_path / "out"
    process = subprocess.Popen([BINARY, "convert", str(source), str(out), *flags],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    space = pathlib.Path(f"{out}.converting")
    while process.poll() is None and not list(space.glob("model/*.safetensors")):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and b"goes on with" in stderr
    assert convert(source, out, *flags)["resumed_shards"] >= 1
    assert hashes(out) == hashes(whole)


def test_a_full_disk_is_told_and_got_over(large, tmp_path):
    """A limit on the size of files stands for the disk; the second run has more room."""
    source, whole, flags = large
    out = tmp_path / "out"

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))

    result = subprocess.run([BINARY, "convert", str(source), str(out), *flags],
                            capture_output=True, preexec_fn=limit)
    assert result.returncode == 1, result.stderr
    assert b"model-000" in result.stderr and b"cannot write: File too large" in result.stderr
    assert not out.exists()
    convert(source, out, *flags)
    assert hashes(out) == hashes(whole)


def test_one_at_a_time(large, tmp_path):
    import fcntl

    source, _, flags = large
    space = tmp_path / "out.converting"
    space.mkdir()
    fd = os.open(space, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    fails(1, "convert", source, tmp_path / "out", *flags, mentions=["another process"])
    os.close(fd)


def test_truncated_and_missing_shards(tiny, tmp_path):
    """At any cut: exit 4, the file is named, nothing is made."""
    source = tmp_path / "source"
    shutil.copytree(tiny.hf("qwen3", 2), source)
    shard = source / "model-00002-of-00002.safetensors"
    data = shard.read_bytes()
    rng = np.random.default_rng(2)
    header, = struct.unpack("<Q", data[:8])
    cuts = [0, 1, 7, 8, 9, 8 + header - 1, 8 + header, 8 + header + 1, len(data) - 1]
    for cut in [*cuts, *rng.integers(0, len(data), 20).tolist()]:
        shard.write_bytes(data[:cut])
        fails(4, "convert", source, tmp_path / "out", mentions=[shard])
    shard.unlink()
    fails(4, "convert", source, tmp_path / "out", mentions=[shard, "missing"])
    shard.write_bytes(data)
    shard.chmod(0)
    if subprocess.run(["cat", shard], capture_output=True).returncode != 0:  # not for root
        fails(4, "convert", source, tmp_path / "out", mentions=[shard, "cannot open"])
    assert [p.name for p in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize("value,dtype,mentions", [
    (np.nan, "float32", ["row 37, column 5", "NaN"]), (-np.inf, "float32", ["row 37", "-inf"]),
    (1e6, "float16", ["too large for float16"])])
@pytest.mark.parametrize("name", ["model.layers.2.mlp.up_proj.weight", "model.layers.1.input_layernorm.weight"])
def test_weights_that_cannot_be(name, value, dtype, mentions, tmp_path):
    tensors = make_tensors(SPECS["qwen3"])
    matrix = tensors[name].ndim == 2
    if not matrix and value == -np.inf:
        pytest.skip("kept as it is")
    tensors[name].reshape(-1)[37 * 128 + 5 if matrix else 37] = value
    write_hf(tmp_path / "source", tensors, SPECS["qwen3"].config)
    if not matrix:
        mentions = [m.replace("row 37, column 5", "element 37") for m in mentions]
    fails(4, "convert", tmp_path / "source", tmp_path / "out", "--dtype", dtype,
          mentions=[name, *mentions])
    assert not (tmp_path / "out").exists()


def test_what_is_there_stays(tiny, tmp_path):
    """DST is replaced only with --force, and only a model; the source never."""
    source, out = tmp_path / "source", tmp_path / "out"
    shutil.copytree(tiny.hf("qwen3"), source)
    convert(source, out)
    before = hashes(out)
    fails(2, "convert", source, out, "--bits", 3, mentions=[out, "--force"])
    assert hashes(out) == before
    convert(source, out, "--bits", 3, "--force")
    assert config_of(out)["quantization"]["bits"] == 3
    for destination in (source, f"{source}/", tmp_path, source / ".." / "source"):
        fails(2, "convert", source, destination, "--force", mentions=["the source"])
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "letters.txt").write_text("dear")
    fails(2, "convert", source, precious, "--force", mentions=["replaces empty folders and models"])
    assert (precious / "letters.txt").read_text() == "dear"
    link = tmp_path / "link"
    link.symlink_to(precious)
    fails(2, "convert", source, link, "--force", mentions=["replaces"])
    assert {p.name for p in tmp_path.iterdir()} == {"source", "out", "precious", "link"}


def test_sources_that_are_refused(tiny, tmp_path):
    out = tmp_path / "out"
    fails(4, "convert", tiny.gguf("qwen3", "F16"), out, mentions=["GGUF", "original"])
    fails(4, "convert", tiny.mlx("qwen3", 4, 64), out, mentions=["quantized already"])
    folder = tmp_path / "other"
    write_hf(folder, make_tensors(SPECS["llama3"]), {
        **SPECS["llama3"].config, "model_type": "no_such_model"})
    fails(4, "convert", folder, out, mentions=["no_such_model", "llama"])
    assert not out.exists()


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


def mlx_inputs(folder, tokens):
    """Mean squares of the inputs of every linear of mlx-lm's model: {module: [columns]}."""
    import mlx.core as mx
    import mlx.nn as nn
    from mlx_lm.utils import load_model

    mx.set_default_device(mx.cpu)
    model, _ = load_model(folder)
    model.set_dtype(mx.float32)
    seen, names = {}, {id(m): n for n, m in model.named_modules()}
    plain = nn.Linear.__call__

    def recorded(self, x):
        seen[names[id(self)]] = (np.array(x, np.float64)**2).reshape(-1, x.shape[-1]).mean(0)
        return plain(self, x)

    nn.Linear.__call__ = recorded
    try:
        mx.eval(model(mx.array([tokens])))
    finally:
        nn.Linear.__call__ = plain
    return seen


def weighed_error(original, folder, inputs, bits, group):
    """sqrt(sum h e^2 / sum h w^2) over the modules that have inputs h, by mlx's dequantize."""
    import mlx.core as mx

    weights = mx.load(str(folder / "model.safetensors"))
    squared = total = 0.0
    for module, h in inputs.items():
        restored = np.array(mx.dequantize(
            weights[module + ".weight"], weights[module + ".scales"], weights[module + ".biases"],
            group_size=group, bits=bits).astype(mx.float32))
        w = original[module + ".weight"].astype(np.float64)
        squared += (h * (restored - w)**2).sum()
        total += (h * w**2).sum()
    return np.sqrt(squared / total)


@pytest.mark.parametrize("name", ["llama3", "gemma3", "gemma4_e", "phi3_long", "cohere2"])
def test_calibration_weighs_by_the_inputs(name, tiny, tmp_path):
    """The error that is told is that of mlx-lm's inputs, and smaller than without a calibration."""
    tokens = fixed_tokens(SPECS[name], 200)
    ids = tmp_path / "ids.txt"
    ids.write_text(",".join(map(str, tokens)))
    inputs = {module: h for module, h in mlx_inputs(tiny.hf(name), tokens).items()
              if "layers." in module}
    flags = ["--bits", 3, "--group", 32, "--override", ".=3:32"]
    report = convert(tiny.hf(name), tmp_path / "weighed", *flags, "--calibration-ids", ids,
                     "--calibration-ctx", 256)
    convert(tiny.hf(name), tmp_path / "even", *flags)
    original = make_tensors(SPECS[name])
    weighed, even = (weighed_error(original, tmp_path / folder, inputs, 3, 32)
                     for folder in ("weighed", "even"))
    assert report["total"]["output_error"] == pytest.approx(weighed, rel=5e-3)
    assert weighed < 0.997 * even, (weighed, even)
    assert "200" not in report["calibration"] and "8192 tokens" in report["calibration"]
    both_agree(tmp_path / "weighed", name, tmp_path)


def test_calibration_is_part_of_what_was_asked(large, tiny, tmp_path):
    """Another text, or none, does not go on with what was begun; the same does, byte for byte."""
    source, _, flags = large
    ids, out, whole = tmp_path / "ids.txt", tmp_path / "out", tmp_path / "whole"
    ids.write_text("2,5,7,11,13")
    more = ["--calibration-ids", ids]
    killed(source, out, [*flags, *more], 2)
    fails(2, "convert", source, out, *flags, mentions=["--calibration sha256", "now it is none"])
    assert convert(source, out, *flags, *more)["resumed_shards"] >= 2
    convert(source, whole, *flags, *more)
    assert hashes(out) == hashes(whole)
    fails(2, "convert", source, tmp_path / "x", *more, "--rounding", "min-max",
          mentions=["--calibration", "search"])
    ids.write_text("2,500")
    fails(2, "convert", source, tmp_path / "x", *more, mentions=["500", "vocabulary"])
    fails(4, "convert", source, tmp_path / "y", "--calibration", ids, mentions=["no tokenizer"])
