"""Tiny checkpoints as GGUF, with the names, metadata and permutation of llama.cpp's converter."""

import gguf
import numpy as np

import tiny_gemma3n
import tiny_gemma4
import tiny_llama4
import tiny_moe
from tiny_specs import TinySpec, is_gemma, is_olmo

_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up",
    **tiny_gemma3n.GGUF_NAMES, **tiny_gemma4.GGUF_NAMES, **tiny_moe.GGUF_NAMES,
    **tiny_llama4.GGUF_NAMES,
}
_TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
        **tiny_gemma3n.GGUF_TOP, **tiny_gemma4.GGUF_TOP}
_ARCHITECTURES = {"gemma3_text": "gemma3", "gemma3n_text": "gemma3n", "gemma4_text": "gemma4", "qwen3": "qwen3", "llama": "llama",
                  "qwen2": "qwen2", "gemma2": "gemma2", "phi3": "phi3", "smollm3": "smollm3",
                  "olmo2": "olmo2", "olmo3": "olmo2", "cohere2": "cohere2", "ministral3": "mistral3",
                  "qwen3_moe": "qwen3moe", "qwen2_moe": "qwen2moe", "gpt_oss": "gpt-oss",
                  "llama4_text": "llama4"}
_INTERLEAVED = ("llama", "smollm3", "ministral3")  # q and k, by the converter


def gguf_name(name: str, post_norms: bool) -> str:
    """blk.3.attn_q.weight of model.layers.3.self_attn.q_proj.weight."""
    if name.endswith(".layer_scalar"):
        return f"blk.{name.split('.')[2]}.layer_output_scale.weight"
    for whole, mapped in (tiny_moe.GGUF_WHOLE_NAMES | tiny_gemma3n.GGUF_WHOLE_NAMES).items():
        if name.endswith(f".{whole}"):
            return f"blk.{name.split('.')[2]}.{mapped}"
    stem, kind = name.rsplit(".", 1)
    if stem in _TOP:
        return f"{_TOP[stem]}.{kind}"
    _, _, layer, module = stem.split(".", 3)
    if module == "post_attention_layernorm":
        mapped = "post_attention_norm" if post_norms else "ffn_norm"
    elif module == "pre_feedforward_layernorm":
        mapped = "ffn_norm"
    elif module == "post_feedforward_layernorm":
        mapped = "post_ffw_norm"
    else:
        mapped = _NAMES[module]
    return f"blk.{layer}.{mapped}.{kind}"


def interleave_pairs(tensor: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head from half-split order (i, i + d/2) to neighbours (2i, 2i + 1)."""
    rows = tensor.shape[0] // heads
    halves = tensor.reshape(heads, 2, rows // 2, *tensor.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(tensor.shape))


def llama3_factors(config: dict) -> np.ndarray:
    """Per RoPE pair, what the llama3 scaling divides its frequency by: [head_dim / 2]."""
    scaling, d = config["rope_scaling"], config["head_dim"]
    wavelength = 2 * np.pi * config["rope_theta"] ** (np.arange(0, d, 2, dtype=np.float64) / d)
    original = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    if low == high:
        return np.where(wavelength < original / high, 1.0, scaling["factor"]).astype(np.float32)
    smooth = np.clip((original / wavelength - low) / (high - low), 0.0, 1.0)
    return (1.0 / ((1 - smooth) / scaling["factor"] + smooth)).astype(np.float32)


def _add_phi3_metadata(writer: gguf.GGUFWriter, c: dict, scaling: dict):
    original = c.get("original_max_position_embeddings", c["max_position_embeddings"])
    writer.add_rope_scaling_orig_ctx_len(original)
    writer.add_rope_dimension_count(int(c.get("partial_rotary_factor", 1.0) * c["head_dim"]))
    writer.add_sliding_window(c["sliding_window"] or 0)
    if "long_factor" in scaling:
        stretch = c["max_position_embeddings"] / original
        writer.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(stretch) / np.log(original))))


def _add_metadata(writer: gguf.GGUFWriter, spec: TinySpec):
    c = spec.config
    writer.add_name(f"tiny {spec.name}")
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_head_count(c["num_attention_heads"])
    families = {"gemma3n_text": tiny_gemma3n, "gemma4_text": tiny_gemma4}
    if c["model_type"] in families:
        writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
        writer.add_vocab_size(c["vocab_size"])
        return families[c["model_type"]].add_gguf_metadata(writer, c)
    writer.add_feed_forward_length(c.get("intermediate_size_mlp") or c["intermediate_size"])
    writer.add_head_count_kv(c["num_key_value_heads"])
    kind = c["model_type"]
    if kind != "phi3":
        writer.add_key_length(c["head_dim"])
        writer.add_value_length(c["head_dim"])
    if kind == "cohere2":
        writer.add_layer_norm_eps(c["layer_norm_eps"])
    else:
        writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    scaling = c.get("rope_scaling") or c.get("rope_parameters") or {}
    if kind != "gemma2":
        writer.add_rope_freq_base(c["rope_theta"] if "rope_theta" in c else scaling["rope_theta"])
    writer.add_vocab_size(c["vocab_size"])
    if kind in _INTERLEAVED or kind in ("cohere2", "llama4_text"):
        writer.add_rope_dimension_count(c["head_dim"])
    if kind == "llama4_text":
        tiny_llama4.add_gguf_metadata(writer, c)
    if kind in tiny_moe.MODELS:
        tiny_moe.add_gguf_metadata(writer, c)
    if is_gemma(spec) or kind in ("olmo3", "cohere2", "gpt_oss"):
        writer.add_sliding_window(c["sliding_window"])
    if kind == "olmo3":
        writer.add_sliding_window_pattern([(i + 1) % 4 != 0 for i in range(c["num_hidden_layers"])])
    if kind == "gemma2":
        writer.add_attn_logit_softcapping(c["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(c["final_logit_softcapping"])
    if kind == "cohere2":
        writer.add_logit_scale(c["logit_scale"])
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    if kind == "ministral3":
        writer.add_rope_scaling_yarn_log_mul(scaling["mscale_all_dim"])
        writer.add_attn_temperature_scale(scaling["llama_4_scaling_beta"])
    if kind == "phi3":
        _add_phi3_metadata(writer, c, scaling)
    if scaling.get("rope_type") == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(scaling["factor"])
    elif scaling.get("rope_type") == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(scaling["factor"])
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])


def _add_vocabulary(writer: gguf.GGUFWriter, vocab_size: int):
    """A SentencePiece vocabulary with nothing but specials and letters: ids are what matters."""
    pieces = [b"<pad>", b"<eos>", b"<bos>", b"<unk>"]
    pieces += [bytes([i]) if chr(i).isprintable() else f"<0x{i:02X}>".encode()
               for i in range(32, 32 + vocab_size - 4)]
    types = [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.UNKNOWN]
    types += [gguf.TokenType.NORMAL if len(p) == 1 else gguf.TokenType.BYTE for p in pieces[4:]]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([-float(i) for i in range(vocab_size)])
    writer.add_token_types([int(t) for t in types])
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(3)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)


def write_gguf(path, spec: TinySpec, tensors: dict[str, np.ndarray], type_name: str, splits=0):
    """Writes the model and returns the weights as a reader will see them, under HF names."""
    c, gemma = spec.config, is_gemma(spec)
    post_norms = gemma or is_olmo(spec) or c["model_type"] == "gpt_oss"
    tensors = tiny_gemma3n.stacked(c, tiny_moe.stacked(c, tensors))
    less_one = c["model_type"] in ("gemma2", "gemma3_text")  # norm weights in Hugging Face files
    kind = gguf.GGMLQuantizationType[type_name]
    writer = gguf.GGUFWriter(str(path), _ARCHITECTURES[c["model_type"]],
                             split_max_tensors=splits, small_first_shard=False)
    _add_metadata(writer, spec)
    _add_vocabulary(writer, c["vocab_size"])
    seen = {}
    for name, tensor in tensors.items():
        stored = tensor + np.float32(1.0) if less_one and name.endswith("norm.weight") else tensor
        heads = {"q_proj": c["num_attention_heads"], "k_proj": c["num_key_value_heads"]}.get(
            name.split(".")[-2]) if c["model_type"] in _INTERLEAVED else None
        if heads:
            stored = interleave_pairs(stored, heads)
        matrix = tensor.ndim in (2, 3) and not name.endswith(".bias")
        small = gguf_name(name, post_norms).endswith(("ffn_gate_inp.weight", "_coef.weight"))
        target = kind if matrix and not small else gguf.GGMLQuantizationType.F32
        if target == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(gguf_name(name, post_norms), stored)
            seen[name] = tensor
            continue
        encoded = gguf.quants.quantize(stored, target)
        writer.add_tensor(gguf_name(name, post_norms), encoded, raw_dtype=target)
        decoded = gguf.quants.dequantize(encoded, target).astype(np.float32)
        if heads:  # back to half-split order
            rows = decoded.shape[0] // heads
            decoded = decoded.reshape(heads, rows // 2, 2, -1).swapaxes(1, 2).reshape(decoded.shape)
        seen[name] = np.ascontiguousarray(decoded)
    if (c.get("rope_scaling") or {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(c))
    for key in ("long_factor", "short_factor"):
        if key in (c.get("rope_scaling") or {}):
            writer.add_tensor(f"rope_factors_{key.removesuffix('_factor')}.weight",
                              np.float32(c["rope_scaling"][key]))
    if c["model_type"] == "gemma4_text":
        writer.add_tensor("rope_freqs.weight", tiny_gemma4.gguf_rope_factors(c))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tiny_gemma3n.unstacked(c, seen)
