#!/usr/bin/env python3
"""Writes the seeds of tests/fuzz/corpus/{saved_cache,calibration}: tiny saved caches, prompt caches
of mlx-lm, and a calibration.

    make_cache_corpus.py [FOLDER]
"""

import hashlib
import json
import pathlib
import struct
import sys

DEFAULT = pathlib.Path(__file__).resolve().parents[1] / "tests/fuzz/corpus"
SIZES = {"U8": 1, "F16": 2, "BF16": 2, "F32": 4, "I32": 4, "U32": 4}


def container(metadata, tensors):
    """A safetensors file of {name: (type, shape)} whose bytes count upwards, so that no half is
    infinite; `tokens` and numbers are given as bytes."""
    header, data = {"__metadata__": metadata}, b""
    for name, (kind, shape, *given) in tensors.items():
        size = SIZES[kind]
        for extent in shape:
            size *= extent
        content = given[0] if given else bytes((len(data) + i) % 60 for i in range(size))
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def summed(file):
    """The file with its checksum put in the place of 64 zeros."""
    digits = hashlib.sha256(file).hexdigest().encode()
    return file.replace(b'"sha256":"' + b"0" * 64, b'"sha256":"' + digits, 1)


def codec(scheme, bits, group, dim):
    return {"scheme": scheme, "bits": bits, "group": group, "dim": dim}


def saved(k, v, tier, rows):
    count, prefix, tensors = sum(b - a for a, b in rows), f"layers.0.{tier}.", {}
    ids = struct.pack("<5i", 2, 3, 4, 5, 6)
    tensors["tokens"] = ("I32", [5], ids)
    for half, c in (("k", k), ("v", v)):
        if c["scheme"] == "f16":
            tensors[f"{prefix}{half}.values"] = ("F16", [1, count, c["dim"]])
            continue
        groups = c["dim"] // c["group"] if c["group"] else 1
        tensors[f"{prefix}{half}.codes"] = ("U8", [1, count, (c["dim"] * c["bits"] + 7) // 8])
        tensors[f"{prefix}{half}.scales"] = ("F16", [1, count, groups])
        if c["scheme"] == "affine":
            tensors[f"{prefix}{half}.biases"] = ("F16", [1, count, groups])
    layers = [{"layer": 0, "tier": tier, "kv_heads": 1, "k": k, "v": v, "rows": rows}]
    return summed(container({"ringkeep_cache": "1", "sha256": "0" * 64, "model": "m",
                             "layers": json.dumps(layers)}, tensors))


def number(value):
    return ("I32", [], struct.pack("<i", value))


def mlx():
    """One layer of each class, in today's layout."""
    tensors = {"0.0": ("F16", [1, 1, 4, 16]), "0.1": ("F16", [1, 1, 4, 16]), "0.2": number(3),
               "1.0": ("F32", [1, 1, 2, 16]), "1.1": ("F32", [1, 1, 2, 16]), "1.2": number(3),
               "1.3": number(0), "1.4": number(2), "1.5": number(1)}
    for half in "01":
        tensors[f"2.{half}.0"] = ("U32", [1, 1, 4, 4])
        for i in "12":
            tensors[f"2.{half}.{i}"] = ("BF16", [1, 1, 4, 1])
    tensors |= {"2.2": number(3), "2.3": number(32), "2.4": number(4)}
    metadata = {"1.0": "KVCache", "1.1": "RotatingKVCache", "1.2": "QuantizedKVCache", "2.0": ""}
    return container(metadata, tensors)


def mlx_old():
    """The layout before: numbers as text."""
    tensors = {"0.0": ("F16", [1, 1, 3, 16]), "0.1": ("F16", [1, 1, 3, 16]),
               "1.0": ("F16", [1, 1, 2, 16]), "1.1": ("F16", [1, 1, 2, 16])}
    metadata = {"0.0": "", "0.1.0": "0", "0.1.1": "2", "0.1.2": "256", "0.1.3": "3", "0.1.4": "1",
                "2.0": "KVCache", "2.1": "RotatingKVCache"}
    return container(metadata, tensors)


def calibration():
    """Two layers with keys of one and two heads, one without between them."""
    pair = struct.pack("<4f", 2.0, 0.5, 2.0, 0.5)
    tensors = {"layers.0.k_balance": ("F32", [1, 4], pair),
               "layers.2.k_balance": ("F32", [2, 4], pair + pair)}
    metadata = {"format": "ringkeep key calibration", "version": "1", "family": "llama",
                "layers": "3", "norms_sha256": "0" * 64, "text_sha256": "1" * 64, "tokens": "5",
                "factors_sha256": hashlib.sha256(3 * pair).hexdigest()}
    return container(metadata, tensors)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    (folder / "calibration/small.safetensors").write_bytes(calibration())
    caches = {
        "f16": saved(codec("f16", 16, 0, 16), codec("f16", 16, 0, 16), "rows", [[0, 5]]),
        "hadamard": saved(codec("hadamard", 4, 0, 16), codec("hadamard", 3, 16, 32), "rows",
                          [[0, 1], [3, 5]]),
        "affine": saved(codec("affine", 4, 16, 32), codec("affine", 8, 16, 16), "start", [[2, 5]]),
        "mlx": mlx(),
        "mlx_old": mlx_old(),
    }
    for name, content in caches.items():
        (folder / f"saved_cache/{name}.safetensors").write_bytes(content)


if __name__ == "__main__":
    main()
