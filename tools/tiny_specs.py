"""The tiny random checkpoints: what each one is, as a Hugging Face config plus a seed.

Together they cover every family, head sizes that are and are not powers of two, tied and untied
embeddings, each published RoPE scaling, biases, and windows much shorter than the test sequences.
"""

from dataclasses import dataclass, field

WINDOW = 32
VOCAB = 96
HIDDEN = 128


@dataclass(frozen=True)
class TinySpec:
    name: str
    config: dict = field(hash=False)  # as in config.json
    seed: int = 1


def _config(model_type, architecture, layers, heads, kv_heads, head_dim, tied, **more):
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "vocab_size": VOCAB,
        "intermediate_size": 192,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": tied,
        "bos_token_id": 2,
        "eos_token_id": 1,
        "torch_dtype": "float32",
        **{"hidden_size": HIDDEN, "max_position_embeddings": 2048, **more},
    }


def _gemma3(layers, pattern, head_dim, rope_scaling):
    kinds = ["full_attention" if (i + 1) % pattern == 0 else "sliding_attention"
             for i in range(layers)]
    return _config("gemma3_text", "Gemma3ForCausalLM", layers, 4, 2, head_dim, True,
                   # 64, since engines round its root to different types: 8 is exact in all.
                   hidden_size=64, hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=head_dim,
                   sliding_window=WINDOW, sliding_window_pattern=pattern, layer_types=kinds,
                   rope_theta=1000000.0, rope_local_base_freq=10000.0, rope_scaling=rope_scaling,
                   attention_bias=False, attn_logit_softcapping=None,
                   final_logit_softcapping=None)


def _gemma4(kinds, **more):
    return _config("gemma4_text", "Gemma4ForCausalLM", len(kinds), 4, 2, 64, True,
                   hidden_size=64, hidden_activation="gelu_pytorch_tanh", sliding_window=WINDOW,
                   layer_types=[{"s": "sliding_attention", "f": "full_attention"}[k] for k in kinds],
                   **{"global_head_dim": 128, "num_global_key_value_heads": None,
                      "attention_k_eq_v": False, "attention_bias": False, "num_kv_shared_layers": 0,
                      "use_double_wide_mlp": False, "hidden_size_per_layer_input": 0,
                      "vocab_size_per_layer_input": VOCAB, "enable_moe_block": False,
                      "final_logit_softcapping": 8.0, "rope_parameters": {
                          "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0,
                                             "partial_rotary_factor": 0.25},
                          "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}},
                      **more})


def _llama(layers, heads, kv_heads, head_dim, tied, **more):
    return _config("llama", "LlamaForCausalLM", layers, heads, kv_heads, head_dim, tied,
                   hidden_act="silu", mlp_bias=False,
                   **{"rope_theta": 10000.0, "attention_bias": False, "rope_scaling": None, **more})


SPECS = {spec.name: spec for spec in [
    TinySpec("gemma3", _gemma3(6, 3, 64, {"rope_type": "linear", "factor": 8.0}), 11),
    # The published pattern, five sliding layers to one full one.
    TinySpec("gemma3_pattern6", _gemma3(7, 6, 128, None), 12),
    # Values from raw keys and fewer KV heads on full layers, as in 12B and 31B.
    TinySpec("gemma4", _gemma4("ssfssf", attention_k_eq_v=True, num_global_key_value_heads=1), 14),
    # Per-layer embeddings, and the last layers share caches, as in E2B.
    TinySpec("gemma4_e", _gemma4("sfssfssf", num_kv_shared_layers=3, use_double_wide_mlp=True,
                                 hidden_size_per_layer_input=64), 15),
    TinySpec("qwen3", _config("qwen3", "Qwen3ForCausalLM", 4, 4, 2, 128, False,
                              hidden_act="silu", rope_theta=1000000.0, rope_scaling=None,
                              attention_bias=False, use_sliding_window=False,
                              sliding_window=None), 21),
    TinySpec("qwen3_tied", _config("qwen3", "Qwen3ForCausalLM", 3, 4, 4, 96, True,
                                   hidden_act="silu", rope_theta=1000000.0, rope_scaling=None,
                                   attention_bias=False, use_sliding_window=False,
                                   sliding_window=None), 22),
    TinySpec("llama3", _llama(6, 4, 1, 64, False, rope_theta=500000.0, rope_scaling={
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64}), 31),
    TinySpec("llama_yarn", _llama(4, 4, 2, 80, True, max_position_embeddings=256, rope_scaling={
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}), 32),
    TinySpec("llama_bias", _llama(4, 4, 2, 96, True, attention_bias=True), 33),
    TinySpec("mistral", _config("mistral", "MistralForCausalLM", 6, 4, 2, 64, False,
                                hidden_act="silu", rope_theta=10000.0, sliding_window=WINDOW,
                                attention_dropout=0.0), 41),
]}


def is_gemma(spec: TinySpec) -> bool:
    return spec.config["model_type"].startswith("gemma")


def has_qk_norm(spec: TinySpec) -> bool:
    return spec.config["model_type"] in ("gemma3_text", "qwen3")
