#!/usr/bin/env python3
"""Writes tests/golden/kv/affine.json: rows quantized by mlx.core.quantize, group by group.

The rows are float32, so scales and biases are MLX's before they are rounded to half precision.
Needs: pip install "mlx[cpu]" numpy
"""
import json
import pathlib

import mlx.core as mx
import numpy as np

CHANNELS = 128


def codes_of(row, bits, group):
    """Unpacks MLX's little-endian bit string of one row."""
    packed, scales, biases = mx.quantize(mx.array(row[None]), group_size=group, bits=bits)
    back = mx.dequantize(packed, scales, biases, group_size=group, bits=bits)
    words = np.array(packed)[0]
    stream = np.unpackbits(words.view(np.uint8), bitorder="little")
    codes = stream.reshape(CHANNELS, bits) @ (1 << np.arange(bits))
    return codes, np.array(scales)[0], np.array(biases)[0], np.array(back)[0]


def main():
    rng = np.random.default_rng(20)
    rows = {
        "gaussian": rng.normal(size=CHANNELS),
        "positive": rng.uniform(1, 2, size=CHANNELS),
        "negative": -rng.uniform(0, 3, size=CHANNELS),
        "constant": np.full(CHANNELS, 0.75),
        "zero": np.zeros(CHANNELS),
        "outlier": np.where(np.arange(CHANNELS) == 5, -40.0, rng.normal(size=CHANNELS)),
    }
    cases = []
    for name, row in rows.items():
        row = row.astype(np.float32)
        for bits in (8, 6, 5, 4, 3, 2):
            for group in (32, 64, 128):
                codes, scales, biases, back = codes_of(row, bits, group)
                cases.append({
                    "row": name, "bits": bits, "group": group, "codes": codes.tolist(),
                    "scales": [float(x) for x in scales], "biases": [float(x) for x in biases],
                })
    golden = {
        "made_by": f"tools/make_kv_goldens.py, mlx {mx.__version__}",
        "rows": {name: [float(np.float32(x)) for x in row] for name, row in rows.items()},
        "cases": cases,
    }
    path = pathlib.Path(__file__).parent.parent / "tests/golden/kv/affine.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(golden, separators=(",", ":"))
    path.write_text(text.replace('{"row"', '\n{"row"') + "\n")


if __name__ == "__main__":
    main()
