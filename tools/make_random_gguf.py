#!/usr/bin/env python3
"""A GGUF of a real model's shape with random weights, to measure speed without a download.

    make_random_gguf.py qwen3-1.7b OUT.gguf
    make_random_gguf.py gemma3-1b OUT.gguf --type Q4_0

Codes are random bytes; scales make every product about as large as its input, so that activations
stay in range in every engine. `Q4_K_M` mixes types as llama.cpp's quantizer does: Q6_K for the
embedding and, in some layers, for V and the down projection.
"""

import argparse

import gguf
import numpy as np

# The layer sizes of the published config.json of each model.
SHAPES = {
    "qwen3-1.7b": dict(arch="qwen3", layers=28, hidden=2048, ffn=6144, heads=16, kv_heads=8,
                       head_dim=128, vocab=151936, theta=1e6, eps=1e-6, context=40960),
    "qwen3-0.6b": dict(arch="qwen3", layers=28, hidden=1024, ffn=3072, heads=16, kv_heads=8,
                       head_dim=128, vocab=151936, theta=1e6, eps=1e-6, context=40960),
    "gemma3-1b": dict(arch="gemma3", layers=26, hidden=1152, ffn=6912, heads=4, kv_heads=1,
                      head_dim=256, vocab=262144, theta=1e6, eps=1e-6, context=32768, window=512),
}
Type = gguf.GGMLQuantizationType


def spread(rng, shape, scale):
    """f16 scales around `scale`, as bytes along the last axis."""
    return (scale * rng.uniform(0.5, 1.5, shape)).astype(np.float16)[..., None].view(np.uint8)


def random_blocks(rng, kind, rows, cols):
    """Rows of packed blocks [rows, bytes of a row] whose weights have a deviation of about 1/sqrt(cols)."""
    size, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    assert cols % size == 0, f"{cols} columns are no multiple of {kind.name}'s {size}"
    n, sigma = rows * (cols // size), cols ** -0.5
    data = rng.integers(0, 256, (n, block_bytes), dtype=np.uint8)
    if kind == Type.Q8_0:
        data[:, :2] = spread(rng, n, sigma / 74)        # uniform int8
    elif kind == Type.Q4_0:
        data[:, :2] = spread(rng, n, sigma / 4.6)       # uniform -8..7
    elif kind in (Type.Q4_K, Type.Q5_K):
        # Sub-scales and sub-mins are all 8; the min centres the codes.
        levels = 16 if kind == Type.Q4_K else 32
        scale = spread(rng, n, sigma / 8 / (levels / 3.46))
        data[:, :2] = scale
        centred = scale.view(np.float16)[:, 0].astype(np.float32) * (levels - 1) / 2
        data[:, 2:4] = centred.astype(np.float16)[:, None].view(np.uint8)
        data[:, 4:12] = 8
        data[:, 12:16] = 0x88
    elif kind == Type.Q6_K:
        data[:, -18:-2] = rng.integers(8, 25, (n, 16), dtype=np.uint8)
        data[:, -2:] = spread(rng, n, sigma / 16 / 18.5)
    else:
        raise ValueError(f"no random blocks of {kind.name}")
    return data.reshape(rows, -1)


def kind_of(name, layer, layers, preset, cols):
    """The type of a matrix under a preset; what a K-quant cannot divide falls back as in llama.cpp."""
    if preset != "Q4_K_M":
        return Type[preset]
    more = layer is not None and (layer < layers // 8 or layer >= 7 * layers // 8
                                  or (layer - layers // 8) % 3 == 2)
    finer = name == "token_embd" or (more and name in ("attn_v", "ffn_down"))
    if cols % 256 != 0:
        return Type.Q8_0
    return Type.Q6_K if finer else Type.Q4_K


def add_metadata(writer, name, s):
    writer.add_name(f"random {name}")
    writer.add_context_length(s["context"])
    writer.add_embedding_length(s["hidden"])
    writer.add_block_count(s["layers"])
    writer.add_feed_forward_length(s["ffn"])
    writer.add_head_count(s["heads"])
    writer.add_head_count_kv(s["kv_heads"])
    writer.add_key_length(s["head_dim"])
    writer.add_value_length(s["head_dim"])
    writer.add_layer_norm_rms_eps(s["eps"])
    writer.add_rope_freq_base(s["theta"])
    writer.add_vocab_size(s["vocab"])
    if "window" in s:
        writer.add_sliding_window(s["window"])
    # A SentencePiece vocabulary of bytes and fillers: measurements feed ids.
    pieces = [b"<pad>", b"<eos>", b"<bos>", b"<unk>"] + [f"<0x{i:02X}>".encode() for i in range(256)]
    types = [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.UNKNOWN] + [gguf.TokenType.BYTE] * 256
    pieces += [f"w{i}".encode() for i in range(s["vocab"] - len(pieces))]
    types += [gguf.TokenType.NORMAL] * (s["vocab"] - len(types))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([-float(i) for i in range(s["vocab"])])
    writer.add_token_types([int(t) for t in types])
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(3)


def write(name, path, preset, layers, seed):
    s = dict(SHAPES[name])
    s["layers"] = layers or s["layers"]
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, s["arch"], use_temp_file=True)
    add_metadata(writer, name, s)
    gemma = s["arch"] == "gemma3"
    hidden, ffn = s["hidden"], s["ffn"]
    q, kv = s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"]

    def matrix(full_name, rows, cols, layer=None):
        kind = kind_of(full_name.split(".")[-2], layer, s["layers"], preset, cols)
        writer.add_tensor(full_name, random_blocks(rng, kind, rows, cols), raw_dtype=kind)

    def norm(full_name, size):
        writer.add_tensor(full_name, rng.uniform(0.8, 1.2, size).astype(np.float32))

    matrix("token_embd.weight", s["vocab"], hidden)
    norm("output_norm.weight", hidden)
    for i in range(s["layers"]):
        at = f"blk.{i}."
        norms = ["attn_norm", "ffn_norm"] + (["post_attention_norm", "post_ffw_norm"] if gemma else [])
        for part in norms:
            norm(f"{at}{part}.weight", hidden)
        for part in ("attn_q_norm", "attn_k_norm"):
            norm(f"{at}{part}.weight", s["head_dim"])
        for part, rows, cols in (("attn_q", q, hidden), ("attn_k", kv, hidden), ("attn_v", kv, hidden),
                                 ("attn_output", hidden, q), ("ffn_gate", ffn, hidden),
                                 ("ffn_up", ffn, hidden), ("ffn_down", hidden, ffn)):
            matrix(f"{at}{part}.weight", rows, cols, i)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("output")
    parser.add_argument("--type", default="Q4_K_M", choices=["Q4_K_M", "Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0"])
    parser.add_argument("--layers", type=int, help="fewer than the shape has")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    write(args.shape, args.output, args.type, args.layers, args.seed)


if __name__ == "__main__":
    main()
