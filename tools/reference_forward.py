#!/usr/bin/env python3
"""Gemma 3 in numpy, float32, from a GGUF's dequantized weights: what exact arithmetic would say.

No cache, no approximation: whole-sequence attention under the visibility rule. Slow to write
cleverly and quick to read; 2,000 tokens of the 270M model take well under a minute.

    reference_forward.py MODEL.gguf --tokens-file IDS --output LOGITS.npy [--positions 1000:2000]
"""

import argparse
import pathlib
import time

import gguf
import numpy as np


class Gguf:
    """Metadata and float32 tensors of a file."""

    def __init__(self, path):
        self.reader = gguf.GGUFReader(str(path))
        self.tensors = {t.name: t for t in self.reader.tensors}

    def get(self, key, default=None):
        found = self.reader.get_field(key)
        return default if found is None else found.contents()

    def tensor(self, name):
        t = self.tensors[name]
        return gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32, copy=False)

    def rows(self, name, begin, end):
        t = self.tensors[name]
        return gguf.quants.dequantize(t.data[begin:end], t.tensor_type).astype(np.float32, copy=False)


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(eps)) * weight


def rope(x, theta, scale):
    """Half-split rotation of [tokens, heads, head_dim] by position; positions are multiplied by `scale`."""
    tokens, _, d = x.shape
    angles = np.outer(np.arange(tokens) * scale, theta ** (-np.arange(0, d, 2) / d))
    cos = np.cos(angles).astype(np.float32)[:, None]  # [tokens, 1, d/2]
    sin = np.sin(angles).astype(np.float32)[:, None]
    a, b = x[..., :d // 2], x[..., d // 2:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)))


def attention(q, k, v, window, scale, block=512):
    """q [tokens, heads, d], k and v [tokens, kv_heads, d] -> [tokens, heads * d]."""
    tokens, heads, d = q.shape
    group = heads // k.shape[1]
    out = np.empty((tokens, heads, d), np.float32)
    for begin in range(0, tokens, block):
        end = min(begin + block, tokens)
        first = max(0, begin - window + 1) if window else 0
        distance = np.arange(begin, end)[:, None] - np.arange(first, end)[None]
        hidden = (distance < 0) | ((distance >= window) if window else False)
        for h in range(heads):
            scores = q[begin:end, h] @ k[first:end, h // group].T * np.float32(scale)
            scores[hidden] = -np.inf
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            out[begin:end, h] = p @ v[first:end, h // group] / p.sum(axis=1, keepdims=True)
    return out.reshape(tokens, heads * d)


class Gemma3:
    def __init__(self, path):
        self.file = f = Gguf(path)
        if f.get("general.architecture") != "gemma3":
            raise SystemExit(f"{path}: this reference knows gemma3 alone")
        get = lambda key, default=None: f.get(f"gemma3.{key}", default)
        self.layers = get("block_count")
        self.hidden = get("embedding_length")
        self.heads = get("attention.head_count")
        self.kv_heads = get("attention.head_count_kv")
        self.head_dim = get("attention.key_length")
        self.eps = get("attention.layer_norm_rms_epsilon")
        self.window = get("attention.sliding_window")
        self.theta = get("rope.freq_base", 1e6)
        self.local_theta = get("rope.freq_base_swa", 1e4)
        linear = get("rope.scaling.type") == "linear"
        self.rope_scale = 1.0 / get("rope.scaling.factor") if linear else 1.0
        self.pattern = 6  # every sixth layer is full
        self.vocab_size = int(f.tensors["token_embd.weight"].shape[1])
        self.head = "output.weight" if "output.weight" in f.tensors else "token_embd.weight"

    def hidden_states(self, tokens):
        """[tokens] -> [tokens, hidden], after the last norm."""
        f, heads, kv_heads, d = self.file, self.heads, self.kv_heads, self.head_dim
        n = len(tokens)
        x = np.stack([f.rows("token_embd.weight", t, t + 1)[0] for t in tokens])
        x = x * np.float32(np.sqrt(self.hidden))
        for i in range(self.layers):
            w = lambda name: f.tensor(f"blk.{i}.{name}.weight")
            norm = lambda y, name: rms_norm(y, w(name), self.eps)
            full = (i + 1) % self.pattern == 0
            theta, scale = (self.theta, self.rope_scale) if full else (self.local_theta, 1.0)

            h = norm(x, "attn_norm")
            q = norm((h @ w("attn_q").T).reshape(n, heads, d), "attn_q_norm")
            k = norm((h @ w("attn_k").T).reshape(n, kv_heads, d), "attn_k_norm")
            v = (h @ w("attn_v").T).reshape(n, kv_heads, d)
            q, k = rope(q, theta, scale), rope(k, theta, scale)
            h = attention(q, k, v, 0 if full else self.window, d**-0.5)
            x = x + norm(h @ w("attn_output").T, "post_attention_norm")

            h = norm(x, "ffn_norm")
            h = gelu_tanh(h @ w("ffn_gate").T) * (h @ w("ffn_up").T)
            x = x + norm(h @ w("ffn_down").T, "post_ffw_norm")
        return rms_norm(x, f.tensor("output_norm.weight"), self.eps)

    def logits(self, tokens, begin=0, end=None, out=None, vocab_block=32768):
        """Float32 [end - begin, vocab], into `out` (an array or a memory map) when given."""
        x = self.hidden_states(tokens)[begin:end]
        if out is None:
            out = np.empty((len(x), self.vocab_size), np.float32)
        for v in range(0, self.vocab_size, vocab_block):
            columns = slice(v, min(v + vocab_block, self.vocab_size))
            out[:, columns] = x @ self.file.rows(self.head, columns.start, columns.stop).T
        return out


def read_tokens(path):
    return [int(t) for t in pathlib.Path(path).read_text().replace(",", " ").split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--tokens-file", required=True)
    parser.add_argument("--positions", default="0:", metavar="A:B")
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    tokens = read_tokens(args.tokens_file)
    begin, end = (int(s) if s else None for s in args.positions.split(":"))
    begin, end = begin or 0, len(tokens) if end is None else end
    start = time.perf_counter()
    model = Gemma3(args.model)
    out = np.lib.format.open_memmap(args.output, "w+", np.float32, (end - begin, model.vocab_size))
    model.logits(tokens[:end], begin, end, out)
    out.flush()
    print(f"{args.output}: {out.shape} in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
