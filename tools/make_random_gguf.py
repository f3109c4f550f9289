#!/usr/bin/env python3
"""A GGUF of a real model's shape with random weights, to measure speed without a download.

    make_random_gguf.py qwen3-1.7b OUT.gguf
    make_random_gguf.py gemma3-1b OUT.gguf --type Q4_0
    make_random_gguf.py gemma4-26b-a4b OUT.gguf --layers 3
    make_random_gguf.py gpt-oss-20b OUT.gguf --layers 3 --type MXFP4

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
    "gemma4-26b-a4b": dict(arch="gemma4", layers=30, hidden=2816, ffn=2112, heads=16, kv_heads=8,
                           head_dim=256, full_kv_heads=2, full_head_dim=512, vocab=262144, theta=1e6,
                           eps=1e-6, context=262144, window=1024, experts=128, used=8,
                           expert_ffn=704),
    "qwen3-30b-a3b": dict(arch="qwen3moe", layers=48, hidden=2048, ffn=6144, heads=32, kv_heads=4,
                          head_dim=128, vocab=151936, theta=1e6, eps=1e-6, context=40960,
                          experts=128, used=8, expert_ffn=768),
    "gpt-oss-20b": dict(arch="gpt-oss", layers=24, hidden=2880, ffn=2880, heads=64, kv_heads=8,
                        head_dim=64, vocab=201088, theta=150000.0, eps=1e-5, context=131072,
                        window=128, experts=32, used=4, expert_ffn=2880),
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
    elif kind == Type.Q5_0:
        data[:, :2] = spread(rng, n, sigma / 9.2)       # uniform -16..15
    elif kind in (Type.Q4_K, Type.Q5_K):
        # Sub-scales and sub-mins are all 8; the min centres the codes.
        levels = 16 if kind == Type.Q4_K else 32
        scale = spread(rng, n, sigma / 8 / (levels / 3.46))
        data[:, :2] = scale
        centred = scale.view(np.float16)[:, 0].astype(np.float32) * (levels - 1) / 2
        data[:, 2:4] = centred.astype(np.float16)[:, None].view(np.uint8)
        data[:, 4:12] = 8
        data[:, 12:16] = 0x88
    elif kind == Type.MXFP4:
        data[:, 0] = 127 + round(np.log2(sigma / 2.5))  # one exponent; codes of all 16 values
    elif kind == Type.Q6_K:
        data[:, -18:-2] = rng.integers(8, 25, (n, 16), dtype=np.uint8)
        data[:, -2:] = spread(rng, n, sigma / 16 / 18.5)
    else:
        raise ValueError(f"no random blocks of {kind.name}")
    return data.reshape(rows, -1)


def kind_of(name, layer, layers, preset, cols):
    """The type of a matrix under a preset; what a K-quant cannot divide falls back as in llama.cpp."""
    if name == "ffn_gate_inp":
        return Type.F32
    if preset == "MXFP4":  # as GPT-OSS is published: its experts alone
        return Type.MXFP4 if name.endswith("_exps") else Type.Q8_0
    if cols % 256 != 0 and name.endswith("_exps") and preset in ("Q4_K", "Q4_K_M"):
        return Type.Q5_0
    if preset != "Q4_K_M":
        return Type[preset]
    more = layer is not None and (layer < layers // 8 or layer >= 7 * layers // 8
                                  or (layer - layers // 8) % 3 == 2)
    finer = name == "token_embd" or (more and name in ("attn_v", "ffn_down"))
    if cols % 256 != 0:
        return Type.Q8_0
    return Type.Q6_K if finer else Type.Q4_K


def is_full(s, layer):
    """Gemma 4: every sixth layer and the last one see everything."""
    return layer % 6 == 5 or layer == s["layers"] - 1


def kv_heads_of(s, layer):
    return s["full_kv_heads"] if "full_kv_heads" in s and is_full(s, layer) else s["kv_heads"]


def add_metadata(writer, name, s):
    writer.add_name(f"random {name}")
    writer.add_context_length(s["context"])
    writer.add_embedding_length(s["hidden"])
    writer.add_block_count(s["layers"])
    writer.add_feed_forward_length(s["ffn"])
    writer.add_head_count(s["heads"])
    full_dim = s.get("full_head_dim", s["head_dim"])
    writer.add_head_count_kv([kv_heads_of(s, i) for i in range(s["layers"])] if s["arch"] == "gemma4"
                             else s["kv_heads"])
    writer.add_key_length(full_dim)
    writer.add_value_length(full_dim)
    if s["arch"] == "gemma4":
        writer.add_key_length_swa(s["head_dim"])
        writer.add_value_length_swa(s["head_dim"])
        writer.add_rope_dimension_count(full_dim)
        writer.add_rope_dimension_count_swa(s["head_dim"])
        writer.add_rope_freq_base_swa(10000.0)
        writer.add_sliding_window_pattern([not is_full(s, i) for i in range(s["layers"])])
        writer.add_shared_kv_layers(0)
        writer.add_embedding_length_per_layer_input(0)
        writer.add_final_logit_softcapping(30.0)
    if s["arch"] == "gpt-oss":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(32.0)
        writer.add_rope_scaling_orig_ctx_len(4096)
    if "experts" in s:
        writer.add_expert_count(s["experts"])
        writer.add_expert_used_count(s["used"])
        writer.add_expert_feed_forward_length(s["expert_ffn"])
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
    hidden, ffn, heads, experts = s["hidden"], s["ffn"], s["heads"], s.get("experts", 0)
    gemma, gpt_oss = s["arch"].startswith("gemma"), s["arch"] == "gpt-oss"

    def matrix(full_name, rows, cols, layer=None, count=None):
        kind = kind_of(full_name.split(".")[-2], layer, s["layers"], preset, cols)
        total = rows * (count or 1)
        if kind == Type.F32:
            data = rng.normal(0, cols ** -0.5, (total, cols)).astype(np.float32)
        else:
            data = random_blocks(rng, kind, total, cols)
        if count:
            data = data.reshape(count, rows, -1)
        writer.add_tensor(full_name, data, raw_dtype=kind)

    def vector(full_name, *shape, low=0.8, high=1.2):
        writer.add_tensor(full_name, rng.uniform(low, high, shape).astype(np.float32))

    matrix("token_embd.weight", s["vocab"], hidden)
    vector("output_norm.weight", hidden)
    if gpt_oss:
        matrix("output.weight", s["vocab"], hidden)
    if s["arch"] == "gemma4":  # a quarter of a full head's pairs turns
        pairs = s["full_head_dim"] // 2
        writer.add_tensor("rope_freqs.weight", np.float32([1.0] * (pairs // 4) + [1e30] * (pairs - pairs // 4)))
    for i in range(s["layers"]):
        at = f"blk.{i}."
        full = s["arch"] == "gemma4" and is_full(s, i)
        dim = s["full_head_dim"] if full else s["head_dim"]
        q, kv = heads * dim, kv_heads_of(s, i) * dim
        norms = ["attn_norm", "post_attention_norm" if gpt_oss else "ffn_norm"]
        norms += ["post_attention_norm", "post_ffw_norm"] if gemma else []
        if s["arch"] == "gemma4" and experts:
            norms += ["pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"]
        for part in norms:
            vector(f"{at}{part}.weight", hidden)
        for part in () if gpt_oss else ("attn_q_norm", "attn_k_norm"):
            vector(f"{at}{part}.weight", dim)
        matrices = [("attn_q", q, hidden), ("attn_k", kv, hidden)]
        matrices += [] if full else [("attn_v", kv, hidden)]  # which full layers take from K
        matrices += [("attn_output", hidden, q)]
        if not experts or s["arch"] == "gemma4":
            matrices += [("ffn_gate", ffn, hidden), ("ffn_up", ffn, hidden), ("ffn_down", hidden, ffn)]
        if experts:
            matrices += [("ffn_gate_inp", experts, hidden)]
        for part, rows, cols in matrices:
            matrix(f"{at}{part}.weight", rows, cols, i)
        if experts:
            for part, rows, cols in (("gate", s["expert_ffn"], hidden), ("up", s["expert_ffn"], hidden),
                                     ("down", hidden, s["expert_ffn"])):
                matrix(f"{at}ffn_{part}_exps.weight", rows, cols, i, experts)
                if gpt_oss:
                    vector(f"{at}ffn_{part}_exps.bias", experts, rows, low=-0.1, high=0.1)
        if s["arch"] == "gemma4" and experts:
            vector(f"{at}ffn_gate_inp.scale", hidden)
            vector(f"{at}ffn_down_exps.scale", experts)
        if gpt_oss:
            vector(f"{at}attn_sinks.weight", heads, low=-1, high=1)
            for part, rows in (("attn_q", q), ("attn_k", kv), ("attn_v", kv), ("attn_output", hidden),
                               ("ffn_gate_inp", experts)):
                vector(f"{at}{part}.bias", rows, low=-0.1, high=0.1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("output")
    parser.add_argument("--type", default="Q4_K_M", choices=["Q4_K_M", "Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "MXFP4"])
    parser.add_argument("--layers", type=int, help="fewer than the shape has")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    write(args.shape, args.output, args.type, args.layers, args.seed)


if __name__ == "__main__":
    main()
