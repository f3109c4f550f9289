"""`convert` leaves no wrong model behind: sources that are damaged or none, what is there already."""

import shutil
import struct
import subprocess

import numpy as np
import pytest

from converting import config_of, convert, hashes
from make_tiny_model import make_tensors, write_hf
from ringkeep_cli import fails
from tiny_specs import SPECS


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
