#!/usr/bin/env python3
"""Divergence of one set of logits from another: KL(reference || other) in nats and its kin.

Both are .npy files of float32 [tokens, vocab]; rows are memory-mapped and sums are float64.

    kld.py REFERENCE.npy OTHER.npy [--positions 1000:2000] [--tokens-file IDS]

With the token ids, row i predicts token i + 1 and perplexities are compared too.
"""

import argparse
import json
import pathlib

import numpy as np


def _log_softmax(rows):
    rows = rows.astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))


def compare(reference, other, tokens=None, begin=0, end=None, block=16):
    """Statistics over rows [begin, end) of two logit matrices of one shape, as a dict."""
    if reference.shape != other.shape:
        raise ValueError(f"shapes differ: {reference.shape} and {other.shape}")
    end = len(reference) if end is None else end
    kld, same, nll = [], [], []
    for b in range(begin, end, block):
        e = min(b + block, end)
        p, q = _log_softmax(reference[b:e]), _log_softmax(other[b:e])
        if not (np.isfinite(p).all() and np.isfinite(q).all()):
            raise ValueError(f"a logit in rows {b}:{e} is not finite")
        kld.extend((np.exp(p) * (p - q)).sum(axis=1))
        same.extend(p.argmax(axis=1) == q.argmax(axis=1))
        if tokens is not None:
            for row in range(b, min(e, len(tokens) - 1)):
                nll.append((p[row - b, tokens[row + 1]], q[row - b, tokens[row + 1]]))
    kld = np.array(kld)
    result = {
        "rows": len(kld),
        "kld_mean": float(kld.mean()),
        "kld_median": float(np.median(kld)),
        "kld_p99": float(np.quantile(kld, 0.99)),
        "kld_max": float(kld.max()),
        "same_top1": float(100 * np.mean(same)),
    }
    if nll:
        nll = -np.array(nll)
        result["ppl_reference"], result["ppl"] = (float(v) for v in np.exp(nll.mean(axis=0)))
        result["ppl_ratio"] = result["ppl"] / result["ppl_reference"]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("reference")
    parser.add_argument("other")
    parser.add_argument("--positions", default="0:", metavar="A:B")
    parser.add_argument("--tokens-file")
    args = parser.parse_args()
    begin, end = (int(s) if s else None for s in args.positions.split(":"))
    tokens = None
    if args.tokens_file:
        text = pathlib.Path(args.tokens_file).read_text()
        tokens = [int(t) for t in text.replace(",", " ").split()]
    result = compare(np.load(args.reference, mmap_mode="r"), np.load(args.other, mmap_mode="r"),
                     tokens, begin or 0, end)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
