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
        "tie_word_embeddings": tied,
        "bos_token_id": 2,
        "eos_token_id": 1,
        "torch_dtype": "float32",
        **{"hidden_size": HIDDEN, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, **more},
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


def _gemma3n(kinds, sparsity, **more):
    return _config("gemma3n_text", "Gemma3nForCausalLM", len(kinds), 4, 2, 64, True,
                   hidden_size=64, hidden_activation="gelu_pytorch_tanh", sliding_window=WINDOW,
                   layer_types=[{"s": "sliding_attention", "f": "full_attention"}[k] for k in kinds],
                   activation_sparsity_pattern=sparsity + [0.0] * (len(kinds) - len(sparsity)),
                   rope_theta=1000000.0, rope_local_base_freq=10000.0, rope_scaling=None,
                   attention_bias=False, **{
                       "num_kv_shared_layers": 3, "final_logit_softcapping": 8.0,
                       "hidden_size_per_layer_input": 64, "vocab_size_per_layer_input": VOCAB,
                       "altup_num_inputs": 4, "altup_active_idx": 0, "altup_coef_clip": 120.0,
                       "altup_correct_scale": True, "laurel_rank": 32, **more})


def _llama(layers, heads, kv_heads, head_dim, tied, **more):
    return _config("llama", "LlamaForCausalLM", layers, heads, kv_heads, head_dim, tied,
                   hidden_act="silu", mlp_bias=False,
                   **{"rope_theta": 10000.0, "attention_bias": False, "rope_scaling": None, **more})


def _qwen2(tied, **more):
    return _config("qwen2", "Qwen2ForCausalLM", 4, 4, 2, 64, tied, hidden_size=256, hidden_act="silu",
                   rope_theta=1000000.0, rope_scaling=None,
                   **{"use_sliding_window": False, "sliding_window": 4096, **more})


def _gemma2(layers, query_pre_attn_scalar):
    # Soft-caps low enough to bend the scores and logits of a random network.
    return _config("gemma2", "Gemma2ForCausalLM", layers, 4, 2, 64, True, hidden_size=64,
                   hidden_activation="gelu_pytorch_tanh", sliding_window=WINDOW, rope_theta=10000.0,
                   query_pre_attn_scalar=query_pre_attn_scalar, attn_logit_softcapping=6.0,
                   final_logit_softcapping=5.0, attention_bias=False)


def _phi3(hidden, heads, kv_heads, **more):
    return _config("phi3", "Phi3ForCausalLM", 4, heads, kv_heads, hidden // heads, False,
                   hidden_size=hidden, hidden_act="silu", rope_theta=10000.0,
                   pad_token_id=0, **{"sliding_window": None, **more})


def _smollm3(**more):
    return _config("smollm3", "SmolLM3ForCausalLM", 5, 4, 2, 64, True, hidden_act="silu", pad_token_id=0,
                   rope_theta=2000000.0, rope_scaling=None, attention_bias=False, mlp_bias=False,
                   use_sliding_window=False, sliding_window=None, no_rope_layer_interval=4, **more)


def _qwen3_moe(layers, **more):
    return _config("qwen3_moe", "Qwen3MoeForCausalLM", layers, 4, 2, 64, False, hidden_act="silu",
                   rope_theta=1000000.0, rope_scaling=None, attention_bias=False,
                   use_sliding_window=False, sliding_window=None, num_experts=12,
                   num_experts_per_tok=3, moe_intermediate_size=64,
                   **{"decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True, **more})


def _gpt_oss(**yarn):
    return _config("gpt_oss", "GptOssForCausalLM", 4, 4, 2, 64, False, hidden_act="silu",
                   intermediate_size=96, rms_norm_eps=1e-5, attention_bias=True,
                   num_local_experts=8, num_experts_per_tok=3, swiglu_limit=7.0,
                   sliding_window=WINDOW, rope_theta=150000.0, layer_types=[
                       "sliding_attention", "full_attention"] * 2, rope_scaling={
                           "rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0,
                           "original_max_position_embeddings": 64, **yarn})


def _llama4(layers, **more):
    # Published so: no frequencies lie between those of RoPE that are kept and those divided.
    rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0,
            "original_max_position_embeddings": 64}
    return _config("llama4_text", "Llama4ForCausalLM", layers, 4, 2, 64, False, hidden_act="silu",
                   intermediate_size=96, intermediate_size_mlp=160, rope_theta=500000.0,
                   **{"num_local_experts": 6, "num_experts_per_tok": 1, "attention_bias": False,
                      "attention_chunk_size": WINDOW, "use_qk_norm": True, "floor_scale": 24,
                      "attn_scale": 0.4, "attn_temperature_tuning": True,
                      "interleave_moe_layer_step": 1, "rope_scaling": rope, **more})


SPECS = {spec.name: spec for spec in [
    TinySpec("gemma3", _gemma3(6, 3, 64, {"rope_type": "linear", "factor": 8.0}), 11),
    # The published pattern, five sliding layers to one full one.
    TinySpec("gemma3_pattern6", _gemma3(7, 6, 128, None), 12),
    # Values from raw keys and fewer KV heads on full layers, as in 12B and 31B.
    TinySpec("gemma4", _gemma4("ssfssf", attention_k_eq_v=True, num_global_key_value_heads=1), 14),
    # Per-layer embeddings, and the last layers share caches, as in E2B.
    TinySpec("gemma4_e", _gemma4("sfssfssf", num_kv_shared_layers=3, use_double_wide_mlp=True,
                                 hidden_size_per_layer_input=64), 15),
    # The published pattern, four sliding layers to one full one, and caches shared by the last ones.
    TinySpec("gemma3n", _gemma3n("ssssfssfsf", [0.95, 0.95, 0.9]), 16),
    # Another active stream, fewer of them, feed-forwards of different widths, no output factors.
    TinySpec("gemma3n_odd", _gemma3n("sfssfssf", [0.5, 0.0, 0.8], altup_num_inputs=3, altup_active_idx=1,
                                     altup_correct_scale=False,
                                     intermediate_size=[192, 128, 64, 192, 256, 128, 192, 320]), 17),
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
    TinySpec("qwen2", _qwen2(False), 61),
    TinySpec("qwen2_window", _qwen2(True, use_sliding_window=True, sliding_window=WINDOW,
                                    max_window_layers=2), 62),
    TinySpec("gemma2", _gemma2(4, 64), 63),
    TinySpec("gemma2_query", _gemma2(5, 96), 64),
    # As Phi-4-mini: a quarter of each head is not turned, and positions are stretched.
    TinySpec("phi3_long", _phi3(256, 4, 2, partial_rotary_factor=0.75, max_position_embeddings=256,
                                original_max_position_embeddings=64, rope_scaling={
                                    "type": "longrope",
                                    "short_factor": [1.0 + i / 64 for i in range(24)],
                                    "long_factor": [1.0 + i / 8 for i in range(24)]}), 71),
    TinySpec("phi3_window", _phi3(192, 2, 2, sliding_window=WINDOW, rope_scaling=None), 72),
    TinySpec("smollm3", _smollm3(), 73),
    TinySpec("smollm3_listed", _smollm3(no_rope_layers=[1, 0, 0, 1, 1]), 74),
    TinySpec("olmo3", _config("olmo3", "Olmo3ForCausalLM", 5, 4, 2, 64, False, hidden_size=256,
                              hidden_act="silu", attention_bias=False, rope_theta=500000.0,
                              sliding_window=WINDOW, rope_scaling={
                                  "rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0,
                                  "beta_slow": 1.0, "original_max_position_embeddings": 64,
                                  "attention_factor": 1.138629436111989}), 81),
    TinySpec("cohere2", _config("cohere2", "Cohere2ForCausalLM", 5, 4, 2, 64, True, hidden_size=256,
                                hidden_act="silu", attention_bias=False, rope_theta=50000.0,
                                layer_norm_eps=1e-5, logit_scale=0.25, sliding_window=WINDOW,
                                sliding_window_pattern=4, rotary_pct=1.0), 82),
    TinySpec("ministral3", _config("ministral3", "Ministral3ForCausalLM", 4, 4, 2, 64, False,
                                   hidden_act="silu", sliding_window=None, rope_parameters={
                                       "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0,
                                       "original_max_position_embeddings": 40, "beta_fast": 32.0,
                                       "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                                       "llama_4_scaling_beta": 0.2}), 83),
    # All layers see a window, as none that is published does; mlx-lm has no such model.
    TinySpec("ministral3_window", _config(
        "ministral3", "Ministral3ForCausalLM", 3, 4, 2, 64, False, hidden_act="silu",
        sliding_window=WINDOW, rope_parameters={
            "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0,
            "original_max_position_embeddings": 40, "beta_fast": 32.0, "beta_slow": 1.0,
            "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.2}), 86),
    TinySpec("olmo2", _config("olmo2", "Olmo2ForCausalLM", 4, 4, 2, 64, False, hidden_size=256,
                              hidden_act="silu", attention_bias=False, rope_theta=500000.0,
                              rope_scaling=None, rms_norm_eps=1e-5), 84),
    # Windows where layer_types says so, as in Ministral 8B.
    TinySpec("ministral", _config("ministral", "MinistralForCausalLM", 6, 4, 2, 64, False,
                                  hidden_act="silu", rope_theta=1000000.0, sliding_window=WINDOW,
                                  layer_types=["full_attention", *["sliding_attention"] * 2] * 2),
             85),
    TinySpec("qwen3_moe", _qwen3_moe(4, mlp_only_layers=[1]), 91),
    TinySpec("qwen3_moe_raw", _qwen3_moe(3, norm_topk_prob=False, decoder_sparse_step=2), 92),
    TinySpec("qwen2_moe", _config("qwen2_moe", "Qwen2MoeForCausalLM", 3, 4, 2, 64, False,
                                  hidden_size=256, hidden_act="silu", rope_theta=1000000.0,
                                  rope_scaling=None, use_sliding_window=False, sliding_window=None,
                                  num_experts=10, num_experts_per_tok=4, moe_intermediate_size=64,
                                  shared_expert_intermediate_size=128, decoder_sparse_step=1,
                                  norm_topk_prob=False), 93),
    # Values from raw keys, and experts beside each feed-forward, as in 26B-A4B.
    TinySpec("gemma4_moe", _gemma4("ssfssf", attention_k_eq_v=True, num_global_key_value_heads=1,
                                   enable_moe_block=True, num_experts=16, top_k_experts=4,
                                   moe_intermediate_size=64), 94),
    # The ends of yarn's ramp between pairs, as published.
    TinySpec("gpt_oss", _gpt_oss(truncate=False), 95),
    TinySpec("gpt_oss_truncate", _gpt_oss(), 96),
    # As Scout, and as Maverick; chunks that end in the middle of pages.
    TinySpec("llama4", _llama4(6), 101),
    TinySpec("llama4_128", {**_llama4(5, interleave_moe_layer_step=2, use_qk_norm=False,
                                      num_local_experts=128, attention_chunk_size=50),
                            "intermediate_size": 64}, 102),
    TinySpec("llama4_listed", _llama4(5, no_rope_layers=[1, 0, 1, 1, 0], moe_layers=[0, 3],
                                      attention_bias=True, attn_temperature_tuning=False,
                                      num_experts_per_tok=2, attention_chunk_size=40), 103),
    # Without experts and chunks, as MobileLLM-Pro.
    TinySpec("llama4_full", {**_llama4(4, no_rope_layers=[1] * 4, moe_layers=[], layer_types=[
        "full_attention"] * 4, rope_scaling=None), "tie_word_embeddings": True}, 104),
]}


def is_gemma(spec: TinySpec) -> bool:
    return spec.config["model_type"].startswith("gemma")


def has_qk_norm(spec: TinySpec) -> bool:
    return spec.config["model_type"] in ("gemma3_text", "qwen3", "qwen3_moe")


def is_olmo(spec: TinySpec) -> bool:
    return spec.config["model_type"] in ("olmo2", "olmo3")


def has_bias(spec: TinySpec, module: str) -> bool:
    if spec.config["model_type"] in ("qwen2", "qwen2_moe"):
        return module in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    return spec.config.get("attention_bias", False) and module.startswith("self_attn")
