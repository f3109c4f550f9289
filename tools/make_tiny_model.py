#!/usr/bin/env python3
"""Writes a tiny random checkpoint: Hugging Face, MLX-quantized or GGUF.

Weights are integer multiples of a power of two, drawn from PCG64's raw stream: the same bits on
every machine and numpy version, and exact in float32, float16 and bfloat16 alike. Their scale
makes logits spread by a few units and attention look at some tokens much more than at others.

    make_tiny_model.py gemma3 OUT_FOLDER
    make_tiny_model.py gemma3 OUT_FOLDER --mlx 4:64
    make_tiny_model.py gemma3_pattern6 OUT.gguf --gguf Q8_0
"""

import argparse
import hashlib
import json
import pathlib

import numpy as np

import tiny_llama4
import tiny_moe
from tiny_gemma3n import make_gemma3n_tensors
from tiny_gemma4 import make_gemma4_tensors
from tiny_specs import SPECS, TinySpec, has_bias, has_qk_norm, is_gemma, is_olmo


class _Stream:
    """Weights of one seed, in the order they are asked for."""

    def __init__(self, seed):
        self.bits = np.random.PCG64(seed)

    def _integers(self, shape):
        """Uniform integers in [-127, 127]."""
        raw = self.bits.random_raw(int(np.prod(shape)))
        return ((raw >> np.uint64(11)) % np.uint64(255)).astype(np.int64).reshape(shape) - 127

    def matrix(self, rows, columns, deviation):
        """[rows, columns], standard deviation within a factor sqrt(2) of `deviation`."""
        step = 2.0 ** round(np.log2(deviation / 73.6))  # 73.6: deviation of the integers
        return (self._integers((rows, columns)) * step).astype(np.float32)

    def norm(self, n, centre):
        """[n] in centre +- 1/4."""
        return (centre + self._integers((n,)) / 512.0).astype(np.float32)

    def signed_norm(self, n, size):
        """[n] of random sign and magnitude size / 2 to size."""
        draw = self._integers((n,))
        return (np.where(draw < 0, -1.0, 1.0) * size * (0.5 + np.abs(draw) / 256.0)).astype(np.float32)

    def bias(self, n):
        """[n] in +- 1/4."""
        return (self._integers((n,)) / 512.0).astype(np.float32)


def _fuse(tensors, prefix, parts, whole):
    """Puts the rows of some matrices into one."""
    tensors[f"{prefix}{whole}.weight"] = np.concatenate(
        [tensors.pop(f"{prefix}{part}.weight") for part in parts])


def make_tensors(spec: TinySpec) -> dict[str, np.ndarray]:
    """All tensors under Hugging Face names, float32."""
    c, rng = spec.config, _Stream(spec.seed)
    if c["model_type"] == "gemma4_text":
        return make_gemma4_tensors(c, rng)
    if c["model_type"] == "gemma3n_text":
        return make_gemma3n_tensors(c, rng)
    hidden, ffn, head_dim = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q_rows = c["num_attention_heads"] * head_dim
    kv_rows = c["num_key_value_heads"] * head_dim
    gemma, qk_norm = is_gemma(spec), has_qk_norm(spec)
    one = 0.0 if gemma else 1.0  # Gemma stores norm weights less one

    # What a layer adds is small beside the residual stream, as in trained models: otherwise a random
    # network amplifies the rounding of a 16-bit cache like any other change.
    branch = 0.1
    post_norm = branch - 1.0  # of Gemma, which normalises what a layer adds

    tensors = {"model.embed_tokens.weight": rng.matrix(c["vocab_size"], hidden, 0.25)}
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        shapes = {  # rows, columns, gain
            "self_attn.q_proj": (q_rows, hidden, 1.0),
            "self_attn.k_proj": (kv_rows, hidden, 1.0),
            "self_attn.v_proj": (kv_rows, hidden, 1.0),
            "self_attn.o_proj": (hidden, q_rows, branch),
        }
        if c["model_type"] not in (*tiny_moe.MODELS, "llama4_text"):
            shapes |= {"mlp.gate_proj": (ffn, hidden, 1.0), "mlp.up_proj": (ffn, hidden, 1.0),
                       "mlp.down_proj": (hidden, ffn, branch)}
        for name, (rows, columns, gain) in shapes.items():
            tensors[f"{p}{name}.weight"] = rng.matrix(rows, columns, gain / np.sqrt(columns))
            if has_bias(spec, name):
                tensors[f"{p}{name}.bias"] = rng.bias(rows)
        if c["model_type"] in tiny_moe.MODELS:
            more = (tiny_moe.gpt_oss_ffn(c, rng, branch) if c["model_type"] == "gpt_oss"
                    else tiny_moe.qwen_ffn(c, rng, i, branch))
            tensors |= {f"{p}{name}": tensor for name, tensor in more.items()}
        if c["model_type"] == "llama4_text":
            tensors |= {f"{p}{name}": tensor
                        for name, tensor in tiny_llama4.ffn(c, rng, i, branch).items()}
        if c["model_type"] == "gpt_oss":
            tensors[f"{p}self_attn.sinks"] = rng.bias(c["num_attention_heads"]) * np.float32(4.0)
        norms = {"input_layernorm": one, "post_attention_layernorm": post_norm if gemma else one}
        if gemma:
            norms |= {"pre_feedforward_layernorm": one, "post_feedforward_layernorm": post_norm}
        if is_olmo(spec):
            norms = {"post_attention_layernorm": branch, "post_feedforward_layernorm": branch}
        if c["model_type"] == "cohere2":
            norms = {"input_layernorm": one}
        for name, centre in norms.items():
            tensors[f"{p}{name}.weight"] = rng.norm(hidden, centre)
        if qk_norm:
            for name in ("q_norm", "k_norm"):
                tensors[f"{p}self_attn.{name}.weight"] = rng.norm(head_dim, one + 0.25)
        if is_olmo(spec):  # over all heads at once
            tensors[f"{p}self_attn.q_norm.weight"] = rng.norm(q_rows, 0.9)
            tensors[f"{p}self_attn.k_norm.weight"] = rng.norm(kv_rows, 0.9)
        if c["model_type"] == "phi3":
            _fuse(tensors, f"{p}self_attn.", ("q_proj", "k_proj", "v_proj"), "qkv_proj")
            _fuse(tensors, f"{p}mlp.", ("gate_proj", "up_proj"), "gate_up_proj")
    if c["tie_word_embeddings"]:
        # Random signs: a token's own embedding, still in the residual stream, does not win.
        tensors["model.norm.weight"] = rng.signed_norm(hidden, 1.5) - np.float32(1.0 - one)
    else:
        tensors["model.norm.weight"] = rng.norm(hidden, one)
        tensors["lm_head.weight"] = rng.matrix(c["vocab_size"], hidden, 0.25)
    return tensors


def fingerprint(tensors: dict[str, np.ndarray]) -> str:
    """SHA-256 over names and bytes: goldens name it, so that a drift is noticed."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()


def test_tokens(spec: TinySpec, n: int) -> list[int]:
    """A fixed random sequence that begins with BOS and avoids the special ids."""
    raw = np.random.PCG64(spec.seed + 1000).random_raw(n - 1)
    return [2] + [3 + int(r >> np.uint64(11)) % (spec.config["vocab_size"] - 3) for r in raw]


def write_hf(folder, tensors, config, shards=1):
    """config.json and float32 safetensors, in `shards` files with an index when more than one."""
    from safetensors.numpy import save_file

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    metadata = {"format": "pt"}
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata)
        return
    names, weight_map = list(tensors), {}
    for s in range(shards):
        file = f"model-{s + 1:05d}-of-{shards:05d}.safetensors"
        part = {n: tensors[n] for n in names[s::shards]}
        weight_map |= {n: file for n in part}
        save_file(part, folder / file, metadata)
    total = sum(t.nbytes for t in tensors.values())
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}))


def write_mlx(folder, tensors, config, bits, group, overrides=None, key_of=str, dtype="float32"):
    """An MLX checkpoint, affine. `overrides`: {module: (bits, group[, mode]) or None for unquantized};
    `key_of` makes its key in config.json."""
    import mlx.core as mx

    with_mode = lambda how: how and (*how, "affine")[:3]
    overrides = {module: with_mode(how) for module, how in (overrides or {}).items()}
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    out = {}
    for name, tensor in tensors.items():
        array = mx.array(tensor).astype(getattr(mx, dtype))
        module = name.removesuffix(".weight")
        how = overrides.get(module, (bits, group, "affine"))
        # As mlx-lm: AltUp's maps have too few columns for a group.
        small = name.endswith("_coefs.weight")
        if tensor.ndim not in (2, 3) or name.endswith(".bias") or how is None or small:
            out[name] = array
            continue
        packed, scales, *biases = mx.quantize(array, group_size=how[1], bits=how[0], mode=how[2])
        out[name] = packed
        out[f"{module}.scales"] = scales
        if biases:
            out[f"{module}.biases"] = biases[0]
    quantization = {"group_size": group, "bits": bits}
    for module, how in overrides.items():
        quantization[key_of(module)] = (
            {"group_size": how[1], "bits": how[0], "mode": how[2]} if how is not None else False)
    (folder / "config.json").write_text(json.dumps(
        {**config, "quantization": quantization, "quantization_config": quantization}, indent=2))
    mx.save_safetensors(str(folder / "model.safetensors"), out, {"format": "mlx"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("spec", choices=sorted(SPECS))
    parser.add_argument("output", help="folder, or file for --gguf")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--mlx", metavar="BITS:GROUP")
    parser.add_argument("--gguf", metavar="TYPE", help="F32, F16, BF16, Q8_0, Q4_0, ...")
    args = parser.parse_args()
    spec = SPECS[args.spec]
    tensors = make_tensors(spec)
    if args.gguf:
        from tiny_gguf import write_gguf

        write_gguf(args.output, spec, tensors, args.gguf)
    elif args.mlx:
        bits, group = map(int, args.mlx.split(":"))
        write_mlx(args.output, tensors, spec.config, bits, group)
    else:
        write_hf(args.output, tensors, spec.config, args.shards)
    print(f"{args.output}: {args.spec}, tensors sha256 {fingerprint(tensors)}")


if __name__ == "__main__":
    main()
