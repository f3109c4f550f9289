"""A GGUF file as a model of mlx-lm: Gemma 3 (text) and Qwen 3, one tensor in memory at a time.

Each tensor is dequantized. Matrices stay so, or get mlx's own affine quantization with as many bits
as their GGUF type has, in groups of 32, so that a step reads about as many bytes.
"""

import gguf
import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models import gemma3_text, qwen3

LAYER_NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "attn_norm": "input_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
NORM_NAMES = {  # the feed-forward's, which families place differently
    "gemma3": {"post_attention_norm": "post_attention_layernorm",
               "ffn_norm": "pre_feedforward_layernorm",
               "post_ffw_norm": "post_feedforward_layernorm"},
    "qwen3": {"ffn_norm": "post_attention_layernorm"},
}
TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
GROUP = 32
Type = gguf.GGMLQuantizationType
BITS = {Type.Q4_0: 4, Type.Q4_1: 4, Type.Q4_K: 4, Type.Q5_0: 5, Type.Q5_1: 5, Type.Q5_K: 5,
        Type.Q6_K: 6, Type.Q8_0: 8, Type.F16: None, Type.BF16: None, Type.F32: None}


def module_name(architecture, tensor_name):
    """model.layers.3.self_attn.q_proj of blk.3.attn_q.weight."""
    parts = tensor_name.removesuffix(".weight").split(".")
    if len(parts) == 1:
        return TOP_NAMES[parts[0]]
    return f"model.layers.{parts[1]}.{(LAYER_NAMES | NORM_NAMES[architecture])[parts[2]]}"


def rope_scaling(meta):
    kind = meta("rope.scaling.type", "none")
    if kind == "none":
        return None
    if kind != "linear":
        raise ValueError(f"RoPE scaled by {kind} is not read here")
    return {"rope_type": "linear", "factor": meta("rope.scaling.factor")}


def make_model(architecture, meta, vocab_size, tied):
    """The model without its weights."""
    shape = dict(
        hidden_size=meta("embedding_length"),
        num_hidden_layers=meta("block_count"),
        intermediate_size=meta("feed_forward_length"),
        num_attention_heads=meta("attention.head_count"),
        num_key_value_heads=meta("attention.head_count_kv"),
        head_dim=meta("attention.key_length"),
        rms_norm_eps=meta("attention.layer_norm_rms_epsilon"),
        rope_theta=meta("rope.freq_base"),
        rope_scaling=rope_scaling(meta),
        max_position_embeddings=meta("context_length"),
        vocab_size=vocab_size,
    )
    if architecture == "qwen3":
        return qwen3.Model(qwen3.ModelArgs(model_type="qwen3", tie_word_embeddings=tied, **shape))
    model = gemma3_text.Model(gemma3_text.ModelArgs(
        model_type="gemma3_text",
        rope_local_base_freq=10000.0,
        query_pre_attn_scalar=meta("attention.key_length"),
        sliding_window=meta("attention.sliding_window"),
        sliding_window_pattern=6,
        **shape,
    ))
    if tied:
        model.sanitize({})  # takes the head away
    return model


def load(path, dtype=mx.float32, quantized=False):
    """The model with every weight in `dtype`, or with its matrices in mlx's affine format."""
    reader = gguf.GGUFReader(path)
    architecture = reader.fields["general.architecture"].contents()
    if architecture not in NORM_NAMES:
        raise ValueError(f"{architecture} is not read here, only {' and '.join(NORM_NAMES)}")

    def meta(key, default=None):
        field = reader.fields.get(f"{architecture}.{key}")
        if field is None and default is None:
            raise ValueError(f"the file has no {architecture}.{key}")
        return default if field is None else field.contents()

    names = {t.name: module_name(architecture, t.name) for t in reader.tensors}
    tied = "output.weight" not in names
    embedding = next(t for t in reader.tensors if t.name == "token_embd.weight")
    model = make_model(architecture, meta, int(embedding.shape[1]), tied)
    bits = {names[t.name]: BITS[t.tensor_type] for t in reader.tensors}
    if quantized:
        nn.quantize(model, class_predicate=lambda name, module: (
            hasattr(module, "to_quantized") and bits[name] is not None
            and {"group_size": GROUP, "bits": bits[name]}))
    weights = []
    for tensor in reader.tensors:
        name = names[tensor.name]
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if architecture == "gemma3" and name.endswith("norm"):
            values = values - 1.0  # GGUF stores Gemma's norm weights plus one
        parts = [mx.array(values).astype(dtype)]
        if quantized and bits[name] is not None:
            parts = mx.quantize(parts[0], group_size=GROUP, bits=bits[name])
        mx.eval(parts)
        weights += zip((f"{name}.{part}" for part in ("weight", "scales", "biases")), parts)
    model.load_weights(weights)  # every one must be there, in its shape
    return model
