"""KLD of mlx-lm's quantized caches from its unquantized one, on given token ids.

The weights are those of a Gemma 3 GGUF file, dequantized to float32, so that the cache is all that
differs from ringkeep's own rows (`ringkeep eval kv --exact`). mlx-lm does not quantize the rotating
caches of sliding layers ("not implemented"); here every layer gets a QuantizedKVCache of unbounded
length and the window's mask, which is the best its codec can do.

    mlx_lm_kld.py MODEL.gguf --tokens-file IDS --bits 8,4,2 --group 64 --begin 2048
"""

import argparse
import json
import pathlib

import gguf
import mlx.core as mx
import numpy as np
from mlx.utils import tree_unflatten
from mlx_lm.models import gemma3_text
from mlx_lm.models.cache import KVCache, QuantizedKVCache

LAYER_NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}


def load(path):
    reader = gguf.GGUFReader(path)

    def meta(key):
        return reader.fields[f"gemma3.{key}"].contents()

    weights = []
    for tensor in reader.tensors:
        parts = tensor.name.removesuffix(".weight").split(".")
        name = (TOP_NAMES[parts[0]] if len(parts) == 1
                else f"model.layers.{parts[1]}.{LAYER_NAMES[parts[2]]}")
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if parts[-1].endswith("norm"):
            values = values - 1.0  # GGUF stores Gemma's norm weights plus one
        weights.append((name + ".weight", mx.array(values)))
    model = gemma3_text.Model(gemma3_text.ModelArgs(
        model_type="gemma3_text",
        hidden_size=meta("embedding_length"),
        num_hidden_layers=meta("block_count"),
        intermediate_size=meta("feed_forward_length"),
        num_attention_heads=meta("attention.head_count"),
        head_dim=meta("attention.key_length"),
        rms_norm_eps=meta("attention.layer_norm_rms_epsilon"),
        vocab_size=reader.get_tensor(
            [t.name for t in reader.tensors].index("token_embd.weight")).shape[1],
        num_key_value_heads=meta("attention.head_count_kv"),
        rope_theta=meta("rope.freq_base"),
        rope_local_base_freq=10000.0,
        query_pre_attn_scalar=meta("attention.key_length"),
        sliding_window=meta("attention.sliding_window"),
        sliding_window_pattern=6,
    ))
    model.sanitize({})  # ties the head to the embedding
    model.update(tree_unflatten(weights))
    mx.eval(model.parameters())
    return model


def log_softmax(logits):
    return logits - mx.logsumexp(logits, axis=-1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--tokens-file", required=True)
    parser.add_argument("--bits", default="8,4,2")
    parser.add_argument("--group", type=int, default=64)
    parser.add_argument("--begin", type=int, default=0, help="first position that is scored")
    args = parser.parse_args()
    text = pathlib.Path(args.tokens_file).read_text()
    tokens = [int(t) for t in text.replace(",", " ").split()]
    model = load(args.model)
    layers = len(model.layers)
    caches = {"f32": [KVCache() for _ in range(layers)]}
    for bits in (int(b) for b in args.bits.split(",")):
        caches[bits] = [QuantizedKVCache(args.group, bits) for _ in range(layers)]
    kld = {bits: [] for bits in caches if bits != "f32"}
    same = {bits: [] for bits in kld}
    nll = {bits: [] for bits in caches}
    at = 0
    while at < len(tokens) - 1:
        rows = 32 if at >= args.begin else min(256, args.begin - at)
        rows = min(rows, len(tokens) - 1 - at)
        ids = mx.array(tokens[at:at + rows])[None]
        scored = at >= args.begin
        reference = None
        for bits, cache in caches.items():
            hidden = model.model(ids, cache)
            if not scored:
                mx.eval(hidden)
                continue
            q = log_softmax(model.model.embed_tokens.as_linear(hidden[0]))
            nll[bits].extend(np.array(-q[mx.arange(rows), mx.array(tokens[at + 1:at + 1 + rows])]))
            if reference is None:
                reference = q
                continue
            kld[bits].extend(np.array((mx.exp(reference) * (reference - q)).sum(axis=-1)))
            same[bits].extend(np.array(reference.argmax(axis=-1) == q.argmax(axis=-1)))
        at += rows
    for bits in kld:
        print(json.dumps({
            "codec": f"mlx-lm {bits} bits, groups of {args.group}",
            "row_bytes_of_256": 256 * bits / 8 + 256 / args.group * 4,
            "rows": len(kld[bits]),
            "kld_mean": float(np.mean(np.float64(kld[bits]))),
            "same_top1": float(100 * np.mean(same[bits])),
            "ppl_ratio": float(np.exp(np.mean(np.float64(nll[bits])) - np.mean(np.float64(nll["f32"])))),
        }))


if __name__ == "__main__":
    main()
