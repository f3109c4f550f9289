"""KLD of mlx-lm's quantized caches from its unquantized one, on given token ids.

The weights are those of a Gemma 3 GGUF file, dequantized to float32, so that the cache is all that
differs from ringkeep's own rows (`ringkeep eval kv --exact`). mlx-lm does not quantize the rotating
caches of sliding layers ("not implemented"); here every layer gets a QuantizedKVCache of unbounded
length and the window's mask, which is the best its codec can do.

    mlx_lm_kld.py MODEL.gguf --tokens-file IDS --bits 8,4,2 --group 64 --begin 2048
"""

import argparse
import json

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache, QuantizedKVCache

import mlx_gguf
import peer


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
    tokens = peer.read_tokens(args.tokens_file)
    model = mlx_gguf.load(args.model)
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
