"""What compare.py asks of an engine, and what the engines' own programs share."""

import argparse
import pathlib
import time

import numpy as np


class Peer:
    """An engine with one model and one cache.

    A subclass has `CODECS`, the caches that it knows by ringkeep's names, `vocab_size`, and

        clear()             forgets every token
        feed(tokens)        a prompt's tokens; returns when the last one's logits are there
        step(tokens)        the same, one token at a time
        fill(depth, seed)   feeds `depth` tokens and returns the state there ...
        restore(filled)     ... to which this goes back
        logits(tokens)      yields (first position, float32 [rows, vocab]) for every token
    """

    def speed_tokens(self, n, seed=0):
        low = min(1000, self.vocab_size // 4)
        return np.random.default_rng(seed).integers(low, self.vocab_size // 2, n)

    def speed(self, filled, prefill, decode):
        """(prefill tok/s, decode tok/s) of `prefill` and `decode` tokens, each after `filled`."""
        tokens = self.speed_tokens(max(prefill, decode), seed=1)
        self.restore(filled)
        start = time.perf_counter()
        self.feed(tokens[:prefill])
        prefill_seconds = time.perf_counter() - start

        self.restore(filled)
        self.feed(tokens[:1])  # the first step after a restore also builds its graph
        start = time.perf_counter()
        self.step(tokens[:decode])
        decode_seconds = time.perf_counter() - start
        return prefill / prefill_seconds, decode / decode_seconds


def read_tokens(path):
    return [int(t) for t in pathlib.Path(path).read_text().replace(",", " ").split()]


def logits_parser(description, codecs):
    """The flags of a program that writes an engine's logits, as `ringkeep logits` does."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model")
    parser.add_argument("--tokens-file", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--codec", default="f16", choices=sorted(codecs))
    parser.add_argument("--threads", type=int, default=2)
    return parser


def write_logits(peer, tokens, path):
    out = np.lib.format.open_memmap(path, "w+", np.float32, (len(tokens), peer.vocab_size))
    for first, rows in peer.logits(tokens):
        out[first:first + len(rows)] = rows
    out.flush()
