"""Tensors and GGUF metadata of tiny Gemma 4 checkpoints: heads that differ by layer kind, values
taken from keys, shared caches with wide feed-forwards, per-layer embeddings."""

import numpy as np

import tiny_moe


def is_full(config, layer):
    return config["layer_types"][layer] == "full_attention"


def first_shared(config):
    return config["num_hidden_layers"] - config["num_kv_shared_layers"]


def heads_of(config, layer):
    """(head_dim, kv_heads) of a layer."""
    if not is_full(config, layer):
        return config["head_dim"], config["num_key_value_heads"]
    own = config["num_global_key_value_heads"] if config["attention_k_eq_v"] else None
    return config["global_head_dim"], own or config["num_key_value_heads"]


def ffn_of(config, layer):
    wide = config["use_double_wide_mlp"] and layer >= first_shared(config)
    return config["intermediate_size"] * (2 if wide else 1)


def make_gemma4_tensors(config, rng):
    """All tensors under Hugging Face names, float32. `rng`: make_tiny_model's stream."""
    hidden, layers, vocab = config["hidden_size"], config["num_hidden_layers"], config["vocab_size"]
    embedded, branch = config["hidden_size_per_layer_input"], 0.1
    tensors = {"model.embed_tokens.weight": rng.matrix(vocab, hidden, 0.25)}
    if embedded:
        tensors["model.embed_tokens_per_layer.weight"] = rng.matrix(vocab, layers * embedded, 0.125)
        tensors["model.per_layer_model_projection.weight"] = rng.matrix(
            layers * embedded, hidden, 1.0)
        tensors["model.per_layer_projection_norm.weight"] = rng.norm(embedded, 1.0)
    for i in range(layers):
        p, (dim, kv_heads), ffn = f"model.layers.{i}.", heads_of(config, i), ffn_of(config, i)
        q_rows, owns = config["num_attention_heads"] * dim, i < first_shared(config)
        matrices = {"self_attn.q_proj": (q_rows, hidden, 1.0)}
        if owns:
            matrices["self_attn.k_proj"] = (kv_heads * dim, hidden, 1.0)
            if not (config["attention_k_eq_v"] and is_full(config, i)):
                matrices["self_attn.v_proj"] = (kv_heads * dim, hidden, 1.0)
        matrices |= {"self_attn.o_proj": (hidden, q_rows, branch), "mlp.gate_proj": (ffn, hidden, 1.0),
                     "mlp.up_proj": (ffn, hidden, 1.0), "mlp.down_proj": (hidden, ffn, branch)}
        norms = {"input_layernorm": 1.0, "post_attention_layernorm": 2 * branch,
                 "pre_feedforward_layernorm": 1.0, "post_feedforward_layernorm": 2 * branch}
        if embedded:
            matrices["per_layer_input_gate"] = (embedded, hidden, 1.0)
            matrices["per_layer_projection"] = (hidden, embedded, 1.0)
            norms["post_per_layer_input_norm"] = 2 * branch
        for name, (rows, columns, gain) in matrices.items():
            tensors[f"{p}{name}.weight"] = rng.matrix(rows, columns, gain / np.sqrt(columns))
        for name, centre in norms.items():
            tensors[f"{p}{name}.weight"] = rng.norm(hidden, centre)
        # Scores are not divided by the root of the head size: its fourth root is in each norm.
        for name in ("q_norm", "k_norm") if owns else ("q_norm",):
            tensors[f"{p}self_attn.{name}.weight"] = rng.norm(dim, 1.0) * np.float32(dim**-0.25 * 1.25)
        tensors[f"{p}layer_scalar"] = rng.norm(1, 0.875)
        if config["enable_moe_block"]:
            experts = tiny_moe.gemma4_experts(config, rng, branch)
            tensors |= {f"{p}{name}": tensor for name, tensor in experts.items()}
    tensors["model.norm.weight"] = rng.signed_norm(hidden, 1.5)
    return tensors


GGUF_NAMES = {
    "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj",
    "post_per_layer_input_norm": "post_norm",
}
GGUF_TOP = {
    "model.embed_tokens_per_layer": "per_layer_token_embd",
    "model.per_layer_model_projection": "per_layer_model_proj",
    "model.per_layer_projection_norm": "per_layer_proj_norm",
}


def gguf_rope_factors(config):
    """What the pairs of full layers divide their frequencies by: [global_head_dim / 2]."""
    pairs = config["global_head_dim"] // 2
    share = config["rope_parameters"]["full_attention"]["partial_rotary_factor"]
    turning = int(config["global_head_dim"] * share / 2)
    return np.array([1.0] * turning + [1e30] * (pairs - turning), np.float32)


def add_gguf_metadata(writer, config):
    """What Gemma 4 writes beside the keys of every architecture."""
    layers = config["num_hidden_layers"]
    if config["enable_moe_block"]:
        tiny_moe.add_gguf_metadata(writer, config)
    full, sliding = (config["rope_parameters"][k] for k in ("full_attention", "sliding_attention"))
    writer.add_feed_forward_length([ffn_of(config, i) for i in range(layers)]
                                   if config["use_double_wide_mlp"] else config["intermediate_size"])
    writer.add_head_count_kv([heads_of(config, i)[1] for i in range(layers)])
    writer.add_key_length(config["global_head_dim"])
    writer.add_value_length(config["global_head_dim"])
    writer.add_key_length_swa(config["head_dim"])
    writer.add_value_length_swa(config["head_dim"])
    writer.add_rope_dimension_count(config["global_head_dim"])
    writer.add_rope_dimension_count_swa(config["head_dim"])
    writer.add_rope_freq_base(full["rope_theta"])
    writer.add_rope_freq_base_swa(sliding["rope_theta"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_sliding_window_pattern([not is_full(config, i) for i in range(layers)])
    writer.add_shared_kv_layers(config["num_kv_shared_layers"])
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    writer.add_final_logit_softcapping(config["final_logit_softcapping"])
