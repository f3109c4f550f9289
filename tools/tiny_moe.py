"""Tensors of tiny mixtures of experts, and what their GGUF files say: Qwen 2 and 3 with experts,
GPT-OSS; Gemma 4's experts beside a dense feed-forward."""

import numpy as np

import tiny_llama4

MODELS = ("qwen2_moe", "qwen3_moe", "gpt_oss")


def is_dense(config, layer):
    """Layers that Qwen's configuration leaves without experts."""
    step = config.get("decoder_sparse_step", 1)
    return layer in config.get("mlp_only_layers", ()) or (layer + 1) % step != 0


def stack(rng, count, rows, columns, deviation):
    """[count, rows, columns]"""
    return rng.matrix(count * rows, columns, deviation).reshape(count, rows, columns)


def qwen_ffn(config, rng, layer, branch):
    """Parts of a layer's feed-forward under Hugging Face names, without the layer's prefix."""
    hidden, root = config["hidden_size"], np.sqrt(config["hidden_size"])
    def dense(prefix, width):
        return {f"{prefix}.gate_proj.weight": rng.matrix(width, hidden, 1 / root),
                f"{prefix}.up_proj.weight": rng.matrix(width, hidden, 1 / root),
                f"{prefix}.down_proj.weight": rng.matrix(hidden, width, branch / np.sqrt(width))}
    if is_dense(config, layer):
        return dense("mlp", config["intermediate_size"])
    parts = {"mlp.gate.weight": rng.matrix(config["num_experts"], hidden, 2 / root)}
    for e in range(config["num_experts"]):
        parts |= dense(f"mlp.experts.{e}", config["moe_intermediate_size"])
    if config["model_type"] == "qwen2_moe":
        parts |= dense("mlp.shared_expert", config["shared_expert_intermediate_size"])
        parts["mlp.shared_expert_gate.weight"] = rng.matrix(1, hidden, 1 / root)
    return parts


def gpt_oss_ffn(config, rng, branch):
    """As dense checkpoints have it: stacks that multiply from the right, gate and up in turn. Large
    enough that some gates and ups are cut off."""
    count, hidden, width = config["num_local_experts"], config["hidden_size"], config["intermediate_size"]
    return {
        "mlp.router.weight": rng.matrix(count, hidden, 2 / np.sqrt(hidden)),
        "mlp.router.bias": rng.bias(count),
        "mlp.experts.gate_up_proj": np.ascontiguousarray(
            stack(rng, count, 2 * width, hidden, 4 / np.sqrt(hidden)).swapaxes(1, 2)),
        "mlp.experts.gate_up_proj_bias": rng.bias(count * 2 * width).reshape(count, -1),
        "mlp.experts.down_proj": np.ascontiguousarray(
            stack(rng, count, hidden, width, branch / 4 / np.sqrt(width)).swapaxes(1, 2)),
        "mlp.experts.down_proj_bias": rng.bias(count * hidden).reshape(count, -1) * np.float32(branch),
    }


def gemma4_experts(config, rng, branch):
    """What the 26B has beside each feed-forward."""
    count, hidden, width = config["num_experts"], config["hidden_size"], config["moe_intermediate_size"]
    return {
        "router.proj.weight": rng.matrix(count, hidden, 2.0),
        "router.scale": rng.norm(hidden, 1.0),
        "router.per_expert_scale": rng.norm(count, 1.0),
        "experts.gate_up_proj": stack(rng, count, 2 * width, hidden, 1 / np.sqrt(hidden)),
        "experts.down_proj": stack(rng, count, hidden, width, 1 / np.sqrt(width)),
        "pre_feedforward_layernorm_2.weight": rng.norm(hidden, 1.0),
        "post_feedforward_layernorm_1.weight": rng.norm(hidden, 1.0),
        "post_feedforward_layernorm_2.weight": rng.norm(hidden, 1.0),
    }


def stacked(config, tensors):
    """The same tensors with gate, up and down as stacks [experts, rows, columns] under MLX's names."""
    kind, out = config["model_type"], {}
    if kind == "llama4_text":
        return tiny_llama4.stacked(tensors)
    home = {"gemma4_text": "experts.switch_glu", "gpt_oss": "mlp.experts"}.get(kind, "mlp.switch_mlp")
    for name, tensor in tensors.items():
        layer, _, part = name.partition(".mlp.experts.")
        if kind == "gemma4_text":
            layer, _, part = name.partition(".experts.")
        if not part:
            out[name] = tensor
            continue
        at = f"{layer}.{home}"
        if kind.startswith("qwen"):
            index, module = part.split(".", 1)
            if index == "0":
                out[f"{at}.{module}"] = np.stack([
                    tensors[f"{layer}.mlp.experts.{e}.{module}"] for e in range(config["num_experts"])])
        elif kind == "gemma4_text":
            if part == "gate_up_proj":
                gate, up = np.split(tensor, 2, axis=1)
                out[f"{at}.gate_proj.weight"], out[f"{at}.up_proj.weight"] = gate.copy(), up.copy()
            else:
                out[f"{at}.down_proj.weight"] = tensor
        elif part == "gate_up_proj":
            rows = tensor.swapaxes(1, 2)
            out[f"{at}.gate_proj.weight"] = np.ascontiguousarray(rows[:, ::2])
            out[f"{at}.up_proj.weight"] = np.ascontiguousarray(rows[:, 1::2])
        elif part == "gate_up_proj_bias":
            out[f"{at}.gate_proj.bias"] = np.ascontiguousarray(tensor[:, ::2])
            out[f"{at}.up_proj.bias"] = np.ascontiguousarray(tensor[:, 1::2])
        elif part == "down_proj":
            out[f"{at}.down_proj.weight"] = np.ascontiguousarray(tensor.swapaxes(1, 2))
        else:
            out[f"{at}.down_proj.bias"] = tensor
    return out


GGUF_NAMES = {
    "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp", "router.proj": "ffn_gate_inp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "pre_feedforward_layernorm_2": "pre_ffw_norm_2", "post_feedforward_layernorm_1": "post_ffw_norm_1",
    "post_feedforward_layernorm_2": "post_ffw_norm_2",
    **{f"{home}.{part}_proj": f"ffn_{part}_exps" for part in ("gate", "up", "down")
       for home in ("mlp.switch_mlp", "mlp.experts", "experts.switch_glu")},
}
GGUF_WHOLE_NAMES = {
    "self_attn.sinks": "attn_sinks.weight", "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale",
}


def add_gguf_metadata(writer, config):
    """Keys of experts."""
    writer.add_expert_count(config.get("num_experts") or config["num_local_experts"])
    writer.add_expert_used_count(config.get("num_experts_per_tok") or config["top_k_experts"])
    writer.add_expert_feed_forward_length(
        config.get("moe_intermediate_size") or config["intermediate_size"])
    if config["model_type"] == "qwen2_moe":
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if "expert_gating_func" in config:
        writer.add_uint32(f"{writer.arch}.expert_gating_func", config["expert_gating_func"])
    if "expert_weights_norm" in config:
        writer.add_expert_weights_norm(config["expert_weights_norm"])


E2M1 = np.float32([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def to_mxfp4(tensor):
    """(codes [.., columns], exponents [.., columns / 32]) nearest to the tensor, and their values."""
    groups = tensor.reshape(*tensor.shape[:-1], -1, 32)
    largest = np.abs(groups).max(-1)
    exponents = np.floor(np.log2(np.maximum(largest, 1e-30))).astype(int) - 2
    scaled = groups / np.exp2(exponents)[..., None]
    codes = np.abs(scaled[..., None] - E2M1).argmin(-1).astype(np.uint8)
    values = (E2M1[codes] * np.exp2(exponents)[..., None]).astype(np.float32)
    return (codes.reshape(tensor.shape), (exponents + 127).astype(np.uint8),
            values.reshape(tensor.shape))


def published_gpt_oss(tensors):
    """(tensors with experts as MXFP4 blocks and scales, dense tensors of the same values)."""
    packed, dense = {}, {}
    for name, tensor in tensors.items():
        if not name.endswith(("gate_up_proj", "experts.down_proj")):
            packed[name] = dense[name] = tensor
            continue
        codes, exponents, values = to_mxfp4(np.ascontiguousarray(tensor.swapaxes(1, 2)))
        pairs = codes.reshape(*exponents.shape, 16, 2)
        packed[f"{name}_blocks"] = pairs[..., 0] | pairs[..., 1] << 4
        packed[f"{name}_scales"] = exponents
        dense[name] = np.ascontiguousarray(values.swapaxes(1, 2))
    return packed, dense
