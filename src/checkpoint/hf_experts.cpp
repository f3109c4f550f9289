// Key names, defaults and rules: transformers' configuration_qwen3_moe.py,
// configuration_qwen2_moe.py and configuration_gpt_oss.py.
#include "checkpoint/hf_experts.h"

#include "checkpoint/limits.h"

namespace ringkeep::checkpoint {

namespace {

// The first of two names that is there.
Result<int64_t> either(const JsonFields& text, const char* key, const char* alias, int64_t most,
                       int64_t fallback) {
  if (const auto value = RK_TRY(text.integer(key, 1, most))) return *value;
  return RK_TRY(text.integer(alias, 1, most)).value_or(fallback);
}

// Layers of mlp_only_layers, and those between every decoder_sparse_step-th, are dense.
Status read_sparse_layers(const JsonFields& text, ModelConfig& config) {
  const int64_t step = RK_TRY(text.integer("decoder_sparse_step", 1, kMostLayers)).value_or(1);
  for (size_t i = 0; i < config.layers.size(); ++i)
    config.layers[i].experts = static_cast<int64_t>(i + 1) % step == 0;
  const Json* dense = text.find("mlp_only_layers");
  if (dense == nullptr) return {};
  if (!dense->is_array()) return text.wrong("mlp_only_layers", "an array of layer indices");
  for (const Json& index : *dense) {
    if (!index.is_number_unsigned() || index.get<uint64_t>() >= config.layers.size())
      return input_error("{}: mlp_only_layers: expected indices of {} layers", text.where(),
                         config.layers.size());
    config.layers[index.get<size_t>()].experts = false;
  }
  return {};
}

}  // namespace

Status read_qwen_experts(const JsonFields& text, ModelConfig& config) {
  const bool qwen2 = config.family == "qwen2_moe";
  if (RK_TRY(text.boolean("use_sliding_window")).value_or(false))
    return input_error("{}: use_sliding_window = true is not supported for {}", text.where(),
                       config.family);
  config.experts = static_cast<int>(
      RK_TRY(either(text, "num_experts", "num_local_experts", kMostExperts, qwen2 ? 60 : 128)));
  config.experts_used = static_cast<int>(
      RK_TRY(text.integer("num_experts_per_tok", 1, config.experts)).value_or(qwen2 ? 4 : 8));
  config.expert_hidden =
      RK_TRY(text.integer("moe_intermediate_size", 1, kLargestWidth)).value_or(qwen2 ? 1408 : 768);
  config.expert_renormalize = RK_TRY(text.boolean("norm_topk_prob")).value_or(false);
  if (config.experts_used > config.experts)
    return input_error("{}: num_experts_per_tok: {} of {} experts", text.where(),
                       config.experts_used, config.experts);
  if (qwen2) {
    config.attention_bias = RK_TRY(text.boolean("qkv_bias")).value_or(true);
    config.shared_expert_hidden =
        RK_TRY(text.integer("shared_expert_intermediate_size", 1, kLargestWidth)).value_or(5632);
  }
  return read_sparse_layers(text, config);
}

Status read_gpt_oss(const JsonFields& text, ModelConfig& config) {
  if (!text.has("rope_parameters") && !text.has("rope_scaling"))
    return input_error("{}: expected rope_scaling, found none", text.where());
  config.experts =
      static_cast<int>(RK_TRY(either(text, "num_local_experts", "num_experts", kMostExperts, 128)));
  config.experts_used = static_cast<int>(
      RK_TRY(either(text, "num_experts_per_tok", "experts_per_token", config.experts, 4)));
  if (config.experts_used > config.experts)
    return input_error("{}: num_experts_per_tok: {} of {} experts", text.where(),
                       config.experts_used, config.experts);
  config.expert_hidden = config.ffn_hidden;
  config.expert_bias = config.attention_sinks = true;
  config.activation = Activation::clamped_swiglu;
  config.swiglu_alpha =
      static_cast<float>(RK_TRY(text.number("swiglu_alpha", 1e-6, 1e6)).value_or(1.702));
  config.swiglu_limit =
      static_cast<float>(RK_TRY(text.number("swiglu_limit", 1e-6, 1e6)).value_or(7.0));
  for (LayerSpec& layer : config.layers) layer.experts = true;
  return {};
}

}  // namespace ringkeep::checkpoint
