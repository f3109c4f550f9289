#!/usr/bin/env python3
"""Writes tests/golden/quant/dequantize.txt: weights in every source format and their float values;
with --quantize, tests/golden/quant/quantize.txt instead: a row and what mlx.core.quantize makes of it.

The values come from the dequantizers of the `gguf` and `mlx` packages. A case is a header line
`TYPE bits group rows cols` and one line of hexadecimal bytes each for the data, the scales and the
biases (`-` when the format has none; float32, exact in f16, or E8M0 bytes) and the float32 values, all little endian.

quantize.txt has one line with the float32 row (exact in f16 and bf16), then for each case a line
`TYPE bits group`, and one line each for words, scales and biases in TYPE.

usage: make_quant_goldens.py [--quantize] OUTPUT
"""
import importlib.metadata
import sys

import gguf
import mlx.core as mx
import numpy as np

ROWS = 2
rng = np.random.default_rng(20240601)


def f16_scales(n):
    """Scales of both signs over a few powers of two, one of them zero and one subnormal."""
    values = rng.normal(size=n) * 2.0 ** rng.integers(-9, -3, size=n)
    values[0] = 0.0
    if n > 1:
        values[1] = 2.0**-20
    return values.astype(np.float16)


# Byte offsets of the f16 numbers in a block.
F16_AT = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}


def gguf_case(name):
    kind = gguf.GGMLQuantizationType[name]
    block_cols, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    if name in F16_AT:
        blocks = rng.integers(0, 256, size=(ROWS * 256 // block_cols, block_bytes), dtype=np.uint8)
        for at in F16_AT[name]:
            blocks[:, at : at + 2] = f16_scales(len(blocks)).view(np.uint8).reshape(-1, 2)
        data = blocks.reshape(ROWS, -1)
    else:
        data = gguf.quantize(rng.normal(size=(ROWS, 256)).astype(np.float32), kind)
    values = gguf.dequantize(data, kind).astype(np.float32)
    return name, 0, 0, data, None, None, values.reshape(ROWS, 256)


def mlx_case(bits, group):
    cols = 2 * 128
    words = rng.integers(0, 2**32, size=(ROWS, cols * bits // 32), dtype=np.uint32)
    shape = (ROWS, cols // group)
    scales = f16_scales(shape[0] * shape[1]).astype(np.float32).reshape(shape)
    biases = f16_scales(shape[0] * shape[1]).astype(np.float32).reshape(shape)
    values = mx.dequantize(mx.array(words), mx.array(scales), mx.array(biases), group_size=group, bits=bits)
    return "MLX", bits, group, words, scales, biases, np.array(values)


def mxfp4_cases():
    """Every code, and scales over most of their range: the smallest are subnormal halves."""
    exponents = rng.integers(0, 200, size=(ROWS, 8), dtype=np.uint8)
    exponents[0, 0] = 0
    blocks = rng.integers(0, 256, size=(ROWS, 8, 17), dtype=np.uint8)
    blocks[..., 0] = exponents
    kind = gguf.GGMLQuantizationType.MXFP4
    data = blocks.reshape(ROWS, -1)
    yield "MXFP4", 0, 0, data, None, None, gguf.dequantize(data, kind).astype(np.float32).reshape(ROWS, 256)
    words = rng.integers(0, 2**32, size=(ROWS, 32), dtype=np.uint32)
    values = mx.dequantize(mx.array(words), mx.array(exponents), group_size=32, bits=4, mode="mxfp4",
                           dtype=mx.float32)
    yield "MLX_MXFP4", 4, 32, words, exponents, None, np.array(values)


def quantize_row():
    """256 values: ordinary groups, one sign only, an outlier, equal values, zeros, tiny ones."""
    row = rng.normal(size=(8, 32)) * 0.05
    row[1] = np.abs(row[1]) + 0.5
    row[2, 7] = -3.0
    row[3] = 0.75
    row[4] = 0.0
    row[5] *= 1e-4
    row = row.reshape(1, 256).astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)  # bf16
    return row.view(np.float32).astype(np.float16).astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)


def write_quantize(path):
    row = quantize_row().view(np.float32)
    with open(path, "w") as out:
        out.write(f"# tools/make_quant_goldens.py --quantize with mlx {importlib.metadata.version('mlx')}\n")
        out.write(row.tobytes().hex() + "\n")
        for kind in ("float16", "bfloat16", "float32"):
            array = mx.array(row).astype(getattr(mx, kind))
            for bits in (2, 3, 4, 5, 6, 8):
                for group in (32, 64, 128):
                    parts = mx.quantize(array, group_size=group, bits=bits)
                    out.write(f"{kind} {bits} {group}\n")
                    for part in parts:
                        raw = part if part.dtype == mx.uint32 else part.view(
                            mx.uint32 if kind == "float32" else mx.uint16)
                        out.write(np.array(raw).tobytes().hex() + "\n")


def main():
    if sys.argv[1] == "--quantize":
        mx.set_default_device(mx.cpu)
        write_quantize(sys.argv[2])
        return
    cases = [gguf_case(name) for name in ["F32", "F16", "BF16", *F16_AT]]
    cases += [mlx_case(bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
    cases += mxfp4_cases()
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("gguf", "mlx"))
    with open(sys.argv[1], "w") as out:
        out.write(f"# tools/make_quant_goldens.py with {versions}\n")
        for name, bits, group, data, scales, biases, values in cases:
            out.write(f"{name} {bits} {group} {values.shape[0]} {values.shape[1]}\n")
            for part in (data, scales, biases, values):
                out.write("-\n" if part is None else np.ascontiguousarray(part).tobytes().hex() + "\n")


if __name__ == "__main__":
    main()
