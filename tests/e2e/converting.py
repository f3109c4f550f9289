"""Runs `convert` and reads what it wrote, here and in mlx-lm."""

import hashlib
import json
import pathlib
import struct

from make_tiny_model import test_tokens as fixed_tokens
from oracles import mlx_logits
from ringkeep_cli import logits, ok_json, worst_error
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
