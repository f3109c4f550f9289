"""Tensors of tiny Llama 4 checkpoints (experts of every token beside those a router chooses, dense
layers in between), their nested form, and what their GGUF files say."""

import numpy as np


def moe_layers(config):
    """Indices of the layers with experts."""
    if config.get("moe_layers") is not None:
        return config["moe_layers"]
    step = config["interleave_moe_layer_step"]
    return range(step - 1, config["num_hidden_layers"], step)


def ffn(config, rng, layer, branch):
    """Parts of a layer's feed-forward under Hugging Face names, without the layer's prefix. Stacks of
    experts multiply from the right, with gate before up."""
    hidden, width = config["hidden_size"], config["intermediate_size"]
    root = np.sqrt(hidden)

    def dense(prefix, width):
        return {f"{prefix}.gate_proj.weight": rng.matrix(width, hidden, 1 / root),
                f"{prefix}.up_proj.weight": rng.matrix(width, hidden, 1 / root),
                f"{prefix}.down_proj.weight": rng.matrix(hidden, width, branch / np.sqrt(width))}

    if layer not in moe_layers(config):
        return dense("feed_forward", config["intermediate_size_mlp"])
    count = config["num_local_experts"]
    stack = lambda rows, columns, gain: rng.matrix(count * rows, columns, gain).reshape(
        count, rows, columns)
    # Scores near zero, so that their sigmoids differ.
    return {"feed_forward.router.weight": rng.matrix(count, hidden, 1 / root),
            "feed_forward.experts.gate_up_proj": stack(hidden, 2 * width, 2 / root),
            "feed_forward.experts.down_proj": stack(width, hidden, 2 * branch / np.sqrt(width)),
            **dense("feed_forward.shared_expert", width)}


def stacked(tensors):
    """The same tensors as mlx-lm and GGUF keep experts: [experts, rows, columns] of gate, up, down."""
    out = {}
    for name, tensor in tensors.items():
        home, _, part = name.partition(".experts.")
        if not part:
            out[name] = tensor
            continue
        rows = np.ascontiguousarray(tensor.swapaxes(1, 2))
        if part == "down_proj":
            out[f"{home}.experts.down_proj.weight"] = rows
            continue
        gate, up = np.split(rows, 2, axis=1)
        out[f"{home}.experts.gate_proj.weight"] = gate.copy()
        out[f"{home}.experts.up_proj.weight"] = up.copy()
    return out


def nested(tensors, config):
    """(tensors, config) as in a multimodal checkpoint, whose text part they are."""
    outer = {"architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4",
             "tie_word_embeddings": config["tie_word_embeddings"], "text_config": config}
    return {f"language_model.{name}": tensor for name, tensor in tensors.items()}, outer


GGUF_NAMES = {
    "feed_forward.router": "ffn_gate_inp",
    **{f"feed_forward.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")},
    **{f"feed_forward.experts.{part}_proj": f"ffn_{part}_exps" for part in ("gate", "up", "down")},
    **{f"feed_forward.shared_expert.{part}_proj": f"ffn_{part}_shexp"
       for part in ("gate", "up", "down")},
}


def add_gguf_metadata(writer, config):
    """As llama.cpp's converter; it leaves out what is the same in every published model: these keys
    are ollama's, and llama.cpp's names for other families."""
    writer.add_interleave_moe_layer_step(config["interleave_moe_layer_step"])
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["intermediate_size"])
    writer.add_uint32("llama4.attention.chunk_size", config["attention_chunk_size"])
    writer.add_attn_temperature_length(config["floor_scale"])
    writer.add_attn_temperature_scale(config["attn_scale"])
