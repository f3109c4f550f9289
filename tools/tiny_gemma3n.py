"""Tensors and GGUF metadata of tiny Gemma 3n checkpoints: AltUp, LAuReL, per-layer embeddings, sparse
gates, shared caches."""

import numpy as np

BRANCH = 0.1  # what a layer adds, beside the residual


def first_shared(config):
    return config["num_hidden_layers"] - config["num_kv_shared_layers"]


def ffn_of(config, layer):
    width = config["intermediate_size"]
    return width[layer] if isinstance(width, list) else width


def altup_tensors(config, rng, p):
    hidden, n = config["hidden_size"], config["altup_num_inputs"]
    return {
        # The router reads a normed row divided by its width.
        f"{p}altup.modality_router.weight": rng.matrix(n, hidden, 6.0),
        f"{p}altup.router_norm.weight": rng.norm(hidden, 1.0),
        f"{p}altup.prediction_coefs.weight": rng.matrix(n * n, n, 0.125),
        f"{p}altup.correction_coefs.weight": rng.matrix(n, n, 0.25),
        f"{p}altup.correct_output_scale": rng.norm(hidden, 1.0),
    }


def make_gemma3n_tensors(config, rng):
    """All tensors under Hugging Face names, float32. `rng`: make_tiny_model's stream."""
    hidden, layers, dim = config["hidden_size"], config["num_hidden_layers"], config["head_dim"]
    embedded, rank = config["hidden_size_per_layer_input"], config["laurel_rank"]
    q_rows, kv_rows = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    tensors = {
        "model.embed_tokens.weight": rng.matrix(config["vocab_size"], hidden, 0.25),
        "model.embed_tokens_per_layer.weight": rng.matrix(
            config["vocab_size_per_layer_input"], layers * embedded, 0.125),
        "model.per_layer_model_projection.weight": rng.matrix(layers * embedded, hidden, 1.0),
        "model.per_layer_projection_norm.weight": rng.norm(embedded, 1.0),
    }
    for i in range(config["altup_num_inputs"] - 1):
        for name in ("altup_projections", "altup_unembed_projections"):
            tensors[f"model.{name}.{i}.weight"] = rng.matrix(hidden, hidden, hidden**-0.5)
    for i in range(layers):
        p, ffn, owns = f"model.layers.{i}.", ffn_of(config, i), i < first_shared(config)
        matrices = {"self_attn.q_proj": (q_rows, hidden, 1.0)}
        if owns:
            matrices |= {"self_attn.k_proj": (kv_rows, hidden, 1.0),
                         "self_attn.v_proj": (kv_rows, hidden, 1.0)}
        matrices |= {"self_attn.o_proj": (hidden, q_rows, BRANCH), "mlp.gate_proj": (ffn, hidden, 1.0),
                     "mlp.up_proj": (ffn, hidden, 1.0), "mlp.down_proj": (hidden, ffn, BRANCH),
                     "laurel.linear_left": (rank, hidden, 1.0),
                     "laurel.linear_right": (hidden, rank, BRANCH),
                     "per_layer_input_gate": (embedded, hidden, 1.0),
                     "per_layer_projection": (hidden, embedded, 1.0)}
        norms = {"input_layernorm": 1.0, "post_attention_layernorm": 4 * BRANCH,
                 "pre_feedforward_layernorm": 1.0, "post_feedforward_layernorm": 4 * BRANCH,
                 "laurel.post_laurel_norm": 4 * BRANCH, "post_per_layer_input_norm": 2 * BRANCH}
        for name, (rows, columns, gain) in matrices.items():
            tensors[f"{p}{name}.weight"] = rng.matrix(rows, columns, gain / np.sqrt(columns))
        for name, centre in norms.items():
            tensors[f"{p}{name}.weight"] = rng.norm(hidden, centre)
        # Scores are not divided by the root of the head size: its fourth root is in each norm.
        for name in ("q_norm", "k_norm") if owns else ("q_norm",):
            tensors[f"{p}self_attn.{name}.weight"] = rng.norm(dim, 1.0) * np.float32(dim**-0.25 * 1.25)
        tensors |= altup_tensors(config, rng, p)
    tensors["model.norm.weight"] = rng.signed_norm(hidden, 1.5)
    return tensors


GGUF_NAMES = {
    "altup.modality_router": "altup_router", "altup.router_norm": "altup_router_norm",
    "altup.prediction_coefs": "altup_predict_coef", "altup.correction_coefs": "altup_correct_coef",
    "laurel.linear_left": "laurel_l", "laurel.linear_right": "laurel_r",
    "laurel.post_laurel_norm": "laurel_post_norm",
}
GGUF_TOP = {"model.altup_projections": "altup_proj", "model.altup_unembed_projections": "altup_unembd_proj"}
GGUF_WHOLE_NAMES = {"altup.correct_output_scale": "altup_correct_scale.weight"}


def stacked(config, tensors):
    """As the converter of llama.cpp: AltUp's matrices in one tensor each."""
    if config["model_type"] != "gemma3n_text":
        return tensors
    out = dict(tensors)
    for name in GGUF_TOP:
        out[f"{name}.weight"] = np.stack([
            out.pop(f"{name}.{i}.weight") for i in range(config["altup_num_inputs"] - 1)])
    return out


def unstacked(config, tensors):
    """Back to Hugging Face's names."""
    if config["model_type"] != "gemma3n_text":
        return tensors
    out = dict(tensors)
    for name in GGUF_TOP:
        for i, matrix in enumerate(out.pop(f"{name}.weight")):
            out[f"{name}.{i}.weight"] = np.ascontiguousarray(matrix)
    return out


def add_gguf_metadata(writer, config):
    """What Gemma 3n writes beside the keys of every architecture."""
    from statistics import NormalDist

    layers, kinds = config["num_hidden_layers"], config["layer_types"]
    deviations = [float(NormalDist().inv_cdf(p)) if p > 0 else -np.inf
                  for p in config["activation_sparsity_pattern"]]
    writer.add_feed_forward_length([ffn_of(config, i) for i in range(layers)])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in kinds])
    writer.add_shared_kv_layers(config["num_kv_shared_layers"])
    writer.add_altup_active_idx(config["altup_active_idx"])
    writer.add_altup_num_inputs(config["altup_num_inputs"])
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    writer.add_activation_sparsity_scale(deviations)
    writer.add_final_logit_softcapping(config["final_logit_softcapping"])
