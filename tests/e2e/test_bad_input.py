"""Whatever a user or a file does wrong gives one clear error line and the right exit code: 2 for
flags and empty prompts, 3 for what the plan refuses, 4 for files and prompts that are too long.
Never a signal, never much memory."""

import json
import resource
import struct
import subprocess

import numpy as np
import pytest

from make_tiny_model import make_tensors, write_hf
from ringkeep_cli import BINARY, fails, run
from tiny_specs import SPECS

U64, I32, STRING, ARRAY, U32 = 10, 5, 8, 9, 4


def header(tensors, values, body=b"", version=3, magic=b"GGUF"):
    return magic + struct.pack("<IQQ", version, tensors, values) + body


def text(value):
    return struct.pack("<Q", len(value)) + value


def value(key, kind, raw):
    return text(key) + struct.pack("<I", kind) + raw


def tensor(name, dims, kind=0, offset=0, n_dims=None):
    return (text(name) + struct.pack("<I", len(dims) if n_dims is None else n_dims)
            + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, offset))


def refused_file(path, content, limit=256 << 20):
    """Exit 4 with one error line, within 10 s and `limit` bytes of data memory."""
    path.write_bytes(content)
    limits = lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    result = subprocess.run([BINARY, "inspect", str(path)], capture_output=True, timeout=10,
                            preexec_fn=limits)
    stderr = result.stderr.decode(errors="replace")
    assert result.returncode == 4, f"exit {result.returncode}: {stderr}"
    assert sum("error:" in line for line in stderr.splitlines()) == 1, stderr
    return stderr


ALIGNMENT = b"general.alignment"
BAD_GGUF = {
    "empty file": b"",
    "wrong magic": header(0, 0, magic=b"GGML"),
    "future version": header(0, 0, version=99),
    "nothing but a header": header(0, 0),
    "zero dimension": header(1, 0, tensor(b"t", [0])),
    "five dimensions": header(1, 0, tensor(b"t", [1, 1, 1, 1, 1])),
    "2^32 - 1 dimensions": header(1, 0, tensor(b"t", [1], n_dims=2**32 - 1)),
    "tensor type 999": header(1, 0, tensor(b"t", [32], kind=999)),
    "offset past the end": header(1, 0, tensor(b"t", [32], offset=2**40)),
    "offset that overflows": header(1, 0, tensor(b"t", [32], offset=2**64 - 32)),
    "dimensions that overflow": header(1, 0, tensor(b"t", [2**33, 2**33])),
    "a row that no block divides": header(1, 0, tensor(b"t", [33], kind=8)) + bytes(4096),
    "overlapping tensors": header(2, 0, tensor(b"a", [64]) + tensor(b"b", [64], offset=32))
    + bytes(4096),
    "one name twice": header(2, 0, tensor(b"a", [8]) + tensor(b"a", [8], offset=32)) + bytes(4096),
    "2^31 tensors": header(2**31, 0),
    "2^57 tensors": header(2**57, 0),
    "2^63 tensors": header(2**63, 0),
    "2^31 values": header(0, 2**31),
    "2^57 values": header(0, 2**57),
    "2^63 values": header(0, 2**63),
    "string of 2^63 bytes": header(0, 1, struct.pack("<Q", 2**63)),
    "empty key": header(0, 1, value(b"", U32, struct.pack("<I", 1))),
    "value type 999": header(0, 1, value(b"k", 999, bytes(8))),
    "array of 2^62 numbers": header(0, 1, value(b"k", ARRAY, struct.pack("<IQ", U64, 2**62))),
    "array of 2^40 strings": header(0, 1, value(b"k", ARRAY, struct.pack("<IQ", STRING, 2**40))),
    "arrays in arrays": header(0, 1, value(b"k", ARRAY, struct.pack("<IQ", ARRAY, 1) * 5000)),
    "alignment as i32": header(0, 1, value(ALIGNMENT, I32, struct.pack("<i", 32))),
    "alignment as u64": header(0, 1, value(ALIGNMENT, U64, struct.pack("<Q", 32))),
    "alignment as text": header(0, 1, value(ALIGNMENT, STRING, text(b"32"))),
    "alignment 0": header(0, 1, value(ALIGNMENT, U32, struct.pack("<I", 0))),
    "alignment 3": header(0, 1, value(ALIGNMENT, U32, struct.pack("<I", 3))),
    "alignment 2^31": header(1, 1, value(ALIGNMENT, U32, struct.pack("<I", 2**31))
                             + tensor(b"t", [32])),
    "unknown architecture": header(0, 1, value(b"general.architecture", STRING, text(b"abacus"))),
    "architecture as a number": header(0, 1, value(b"general.architecture", U32, bytes(4))),
}


@pytest.mark.parametrize("what", sorted(BAD_GGUF))
def test_broken_gguf(what, tmp_path):
    """Zero dimensions, counts near the size limits, wrong types and alignments, overlaps."""
    message = refused_file(tmp_path / "bad.gguf", BAD_GGUF[what])
    assert "bad.gguf" in message


def test_gguf_truncated_anywhere(tiny, tmp_path):
    """A valid file cut at many places, header and data."""
    whole = tiny.gguf("qwen3", "Q4_0").read_bytes()
    cuts = sorted({*range(0, 120, 7), *np.linspace(120, len(whole) - 1, 60).astype(int).tolist()})
    for cut in cuts:
        refused_file(tmp_path / "cut.gguf", whole[:cut])


def safetensors(header_value, data=b""):
    raw = header_value if isinstance(header_value, bytes) else json.dumps(header_value).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def f32(shape, begin, end):
    return {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}


BAD_SAFETENSORS = {
    "empty file": b"",
    "seven bytes": bytes(7),
    "header longer than the file": struct.pack("<Q", 1000) + b"{}",
    "header of 2^63 bytes": struct.pack("<Q", 2**63) + b"{}",
    "not JSON": safetensors(b"not json"),
    "a list": safetensors([1, 2]),
    "nested a thousand deep": safetensors(b"[" * 100000),
    "offsets past the end": safetensors({"a": f32([4], 0, 16)}, bytes(8)),
    "offsets reversed": safetensors({"a": f32([4], 16, 0)}, bytes(16)),
    "negative offsets": safetensors({"a": f32([4], -16, 0)}, bytes(16)),
    "size and shape disagree": safetensors({"a": f32([5], 0, 16)}, bytes(16)),
    "overlapping tensors": safetensors({"a": f32([4], 0, 16), "b": f32([4], 8, 24)}, bytes(24)),
    "shape that overflows": safetensors({"a": f32([2**33, 2**33], 0, 16)}, bytes(16)),
    "unknown dtype": safetensors({"a": {"dtype": "F3", "shape": [4], "data_offsets": [0, 16]}},
                                 bytes(16)),
    "shape of strings": safetensors({"a": f32(["4"], 0, 16)}, bytes(16)),
    "no offsets": safetensors({"a": {"dtype": "F32", "shape": [4]}}, bytes(16)),
}


@pytest.mark.parametrize("what", sorted(BAD_SAFETENSORS))
def test_broken_safetensors(what, tmp_path):
    """Truncated, oversized, overlapping and wrongly typed headers; the error names the file."""
    (tmp_path / "config.json").write_text(json.dumps(SPECS["qwen3"].config))
    (tmp_path / "model.safetensors").write_bytes(BAD_SAFETENSORS[what])
    fails(4, "inspect", tmp_path, mentions=["model.safetensors"], timeout=10)


def logits_fail(folder, *mentions):
    return fails(4, "logits", folder, "--tokens", "2,5,6", "-o", folder.parent / "out.npy",
                 mentions=mentions)


def test_missing_shard(tmp_path):
    """An index that names a shard which is not there: nothing runs on weights that were never read."""
    spec = SPECS["qwen3"]
    write_hf(tmp_path / "m", make_tensors(spec), spec.config, shards=2)
    (tmp_path / "m" / "model-00002-of-00002.safetensors").unlink()
    logits_fail(tmp_path / "m", "model-00002-of-00002.safetensors")


def test_shard_one_byte_short(tmp_path):
    spec = SPECS["qwen3"]
    write_hf(tmp_path / "m", make_tensors(spec), spec.config, shards=2)
    shard = tmp_path / "m" / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    logits_fail(tmp_path / "m", "model-00002-of-00002.safetensors")


def test_missing_tensor(tmp_path):
    """A checkpoint without one of its layers' tensors names that tensor."""
    spec, tensors = SPECS["qwen3"], make_tensors(SPECS["qwen3"])
    name = "model.layers.2.mlp.up_proj.weight"
    del tensors[name]
    write_hf(tmp_path / "m", tensors, spec.config)
    logits_fail(tmp_path / "m", name)


def test_tensor_of_another_shape(tmp_path):
    """The message names the tensor and both shapes."""
    spec, tensors = SPECS["qwen3"], make_tensors(SPECS["qwen3"])
    name = "model.layers.1.self_attn.k_proj.weight"
    tensors[name] = np.ascontiguousarray(tensors[name][:-2])
    write_hf(tmp_path / "m", tensors, spec.config)
    logits_fail(tmp_path / "m", name, 256, 254)


@pytest.mark.parametrize("name", ["model.norm.weight", "model.layers.1.self_attn.q_norm.weight",
                                  "model.layers.2.mlp.up_proj.weight"])
def test_tensor_of_no_weight_type(name, tmp_path):
    """Integers where weights belong, matrix or vector."""
    spec, tensors = SPECS["qwen3"], make_tensors(SPECS["qwen3"])
    tensors[name] = tensors[name].astype(np.int32)
    write_hf(tmp_path / "m", tensors, spec.config)
    logits_fail(tmp_path / "m", name, "I32")


def test_folders_without_a_model(tmp_path):
    (tmp_path / "empty").mkdir()
    fails(4, "inspect", tmp_path / "empty", mentions=[tmp_path / "empty"])
    fails(4, "inspect", tmp_path / "nowhere", mentions=["nowhere"])
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.json").write_text("{ not json")
    fails(4, "inspect", tmp_path / "config", mentions=["config.json"])


def test_config_without_weights_plans_but_does_not_run(tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SPECS["qwen3"].config))
    assert run("plan", folder).returncode == 0
    logits_fail(folder)


@pytest.mark.parametrize("change,word", [
    ({"model_type": "abacus", "architectures": ["AbacusForCausalLM"]}, "abacus"),
    ({"num_hidden_layers": -1}, "num_hidden_layers"),
    ({"num_hidden_layers": 10**12}, "num_hidden_layers"),
    ({"hidden_size": "large"}, "hidden_size"),
    ({"num_attention_heads": 0}, "num_attention_heads"),
    ({"num_key_value_heads": 3}, "num_key_value_heads"),
    ({"layer_types": ["full_attention"]}, "layer_types"),
    ({"rope_scaling": {"rope_type": "spiral", "factor": 2.0}}, "spiral"),
])
def test_configs_that_make_no_sense(change, word, tmp_path):
    """The error names the key or the value."""
    (tmp_path / "config.json").write_text(json.dumps({**SPECS["qwen3"].config, **change}))
    fails(4, "plan", tmp_path, mentions=[word])


def test_mlx_bits_that_do_not_fit_the_tensor(tiny, tmp_path):
    """config.json says 4 bits, the tensor's shapes say 6 (or a group that does not divide): an error
    that names the tensor, not a wrong width."""
    whole = tiny.mlx("qwen3", 6, 64)
    config = json.loads((whole / "config.json").read_text())
    for bits, group in ((5, 32), (6, 48), (7, 64)):
        folder = tmp_path / f"{bits}-{group}"
        folder.mkdir()
        (folder / "model.safetensors").symlink_to(whole / "model.safetensors")
        quantization = {"bits": bits, "group_size": group}
        (folder / "config.json").write_text(json.dumps(
            {**config, "quantization": quantization, "quantization_config": quantization}))
        logits_fail(folder)


def test_split_gguf_files(tiny, tmp_path):
    """A missing part, a later part given first, a part of another split: each has its message."""
    first = tiny.gguf("llama3", "F32", splits=20)
    parts = sorted(first.parent.glob(first.name.replace("00001-of", "*-of")))
    assert len(parts) >= 3
    here = [tmp_path / p.name for p in parts]

    def lay_out():
        for source, target in zip(parts, here):
            target.write_bytes(source.read_bytes())

    lay_out()
    here[1].unlink()
    missing = fails(4, "inspect", here[0], mentions=[here[1].name])
    lay_out()
    later = fails(4, "inspect", here[1], mentions=[here[1].name])
    lay_out()
    here[1].write_bytes(tiny.gguf("qwen3", "F32").read_bytes())
    foreign = fails(4, "inspect", here[0], mentions=[here[1].name])
    joined = tmp_path / "joined.gguf"
    lay_out()
    joined.write_bytes(b"".join(p.read_bytes() for p in parts))
    fails(4, "inspect", joined)
    assert len({missing, later, foreign}) == 3


@pytest.mark.parametrize("arguments", [
    ["--no-such-flag"], ["--kv-bits", "7"], ["--kv-bits", "banana"], ["--kv-bits", ""],
    ["--kv-bits", "K9V8"], ["--kv-bits", "full=4"], ["--kv-bits", "affine4:"],
    ["--kv-bits", "affine7:64"], ["--kv-key-bits", "16"], ["--kv-scheme", "fft"],
    ["--temp", "nan"], ["--temp", "-1"], ["--top-p", "1.5"], ["--top-p", "nan"],
    ["--min-p", "-0.1"], ["--top-k", "x"], ["--repetition-penalty", "0"],
    ["--max-tokens", "0"], ["--max-tokens", "-2"], ["--threads", "0"], ["--chunk", "0"],
    ["--stop", ""], ["--logit-bias", "99999999:5"], ["--logit-bias=-1:5"],
    ["--logit-bias", "abc:5"], ["--logit-bias", "5:x"], ["--logit-bias", "5:1e40"],
    ["--logit-bias", "5"], ["--logit-bias", "96:1"],
], ids=" ".join)
def test_flags_that_are_wrong(arguments, tiny):
    """Unknown flags, bad codecs, sampling values out of range or not finite, ids outside the
    vocabulary (also those that only the embedding would hold): exit 2 and the flag's name."""
    flag = arguments[0].split("=")[0]
    fails(2, "run", tiny.gguf("llama3", "F32"), "-p", "a", "-n", 1, *arguments,
          mentions=[flag.lstrip("-").split("-")[-1].split("=")[0]] if flag != "--temp" else ["temp"])


def test_empty_prompts(tiny, tmp_path):
    """An empty prompt is a usage error on every way in."""
    model = tiny.gguf("llama3", "F32")
    (tmp_path / "empty.txt").write_text("")
    fails(2, "run", model, "-p", "", mentions=["prompt"])
    fails(2, "run", model, mentions=["prompt"])
    fails(4, "run", tmp_path / "none.gguf", mentions=["none.gguf: no such file"])
    fails(2, "run", model, "--prompt-file", tmp_path / "empty.txt", mentions=["prompt"])


def test_prompt_longer_than_the_context(tiny):
    """Exit 4; the message says both lengths."""
    fails(4, "run", tiny.gguf("llama3", "F32"), "--raw", "-p", "ab" * 100, "--ctx", 64,
          mentions=[64, 201])
    tokens = ",".join(["5"] * 65)
    fails(4, "logits", tiny.gguf("llama3", "F32"), "--tokens", tokens, "--ctx", 64, "-o",
          "/dev/null", mentions=[64, 65])


def test_no_command_and_unknown_command():
    fails(2)
    fails(2, "fly", "demo", mentions=['no command "fly"'])
    assert run("--help").returncode == 0
    for command in ("plan", "run", "bench", "logits", "tokenize", "inspect"):
        assert run(command, "--help").returncode == 0


@pytest.mark.parametrize("flag", ["-n", "-p", "-d"])
def test_bench_of_more_tokens_than_there_can_be(flag, demo):
    fails(2, "bench", demo, flag, 2**63 - 512, mentions=(2**63 - 512, "from"))
