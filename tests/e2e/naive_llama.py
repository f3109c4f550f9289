"""Llama in numpy under an explicit visibility rule: the oracle for bounded caches.

Weights by their Hugging Face names, float32, no RoPE scaling. A query at q sees a key at k when
k <= q and (q - k < window or k < keep).
"""

import numpy as np


def _norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def _rope(x, theta):
    """[tokens, heads, d], rotated by row index, halves paired."""
    d = x.shape[-1]
    angle = np.outer(np.arange(len(x)), theta ** (-np.arange(0, d, 2) / d))[:, None]
    a, b = x[..., :d // 2], x[..., d // 2:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle),
                           b * np.cos(angle) + a * np.sin(angle)], axis=-1)


def naive_logits(tensors, config, tokens, window, keep=0):
    """[tokens, vocab] float64."""
    c, n = config, len(tokens)
    heads, kv_heads, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    w = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    q_index, k_index = np.arange(n)[:, None], np.arange(n)[None]
    visible = (k_index <= q_index) & ((q_index - k_index < window) | (k_index < keep))
    x = w["model.embed_tokens.weight"][tokens]
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        linear = lambda y, name: y @ w[f"{p}{name}.weight"].T + w.get(f"{p}{name}.bias", 0.0)
        h = _norm(x, w[p + "input_layernorm.weight"], c["rms_norm_eps"])
        q = _rope(linear(h, "self_attn.q_proj").reshape(n, heads, d), c["rope_theta"])
        k = _rope(linear(h, "self_attn.k_proj").reshape(n, kv_heads, d), c["rope_theta"])
        v = linear(h, "self_attn.v_proj").reshape(n, kv_heads, d)
        k, v = (np.repeat(t, heads // kv_heads, axis=1) for t in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(d)
        scores = np.where(visible, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        h = np.einsum("hqk,khd->qhd", weights, v).reshape(n, heads * d)
        x = x + linear(h, "self_attn.o_proj")
        h = _norm(x, w[p + "post_attention_layernorm.weight"], c["rms_norm_eps"])
        gate = linear(h, "mlp.gate_proj")
        x = x + linear(gate / (1 + np.exp(-gate)) * linear(h, "mlp.up_proj"), "mlp.down_proj")
    x = _norm(x, w["model.norm.weight"], c["rms_norm_eps"])
    return x @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T
