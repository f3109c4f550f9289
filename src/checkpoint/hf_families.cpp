#include "checkpoint/hf_families.h"

#include <optional>
#include <string>

#include "checkpoint/hf_experts.h"
#include "checkpoint/hf_layers.h"
#include "checkpoint/hf_llama4.h"
#include "checkpoint/limits.h"

namespace ringkeep::checkpoint {

namespace {

// Keys that must have one value, or be absent.
Status expect_boolean(const JsonFields& text, const char* key, bool only,
                      const std::string& family) {
  const auto value = RK_TRY(text.boolean(key));
  if (!value || *value == only) return {};
  return input_error("{}: {} = {} is not supported for {}", text.where(), key, *value, family);
}

// Absent keys mean the family's default, null means none.
Status read_softcaps(const JsonFields& text, ModelConfig& config) {
  if (!text.json().contains("attn_logit_softcapping")) config.attention_softcap = 50.0f;
  if (!text.json().contains("final_logit_softcapping")) config.logit_softcap = 30.0f;
  return {};
}

Status read_cohere2(const JsonFields& text, ModelConfig& config) {
  for (const char* key : {"use_parallel_block", "use_gated_activation"})
    RK_TRY(expect_boolean(text, key, true, config.family));
  for (const char* key : {"use_qk_norm", "layer_norm_bias"})
    RK_TRY(expect_boolean(text, key, false, config.family));
  if (const auto part = RK_TRY(text.number("rotary_pct", 0.0, 1.0)); part && *part != 1.0)
    return input_error("{}: rotary_pct = {} is not supported for {}", text.where(), *part,
                       config.family);
  config.norm = NormKind::layer;
  config.norm_eps =
      static_cast<float>(RK_TRY(text.number("layer_norm_eps", 0.0, 1.0)).value_or(1e-5));
  config.logit_scale =
      static_cast<float>(RK_TRY(text.number("logit_scale", -1e6, 1e6)).value_or(0.0625));
  for (LayerSpec& layer : config.layers)
    if (layer.kind != LayerKind::sliding) layer.rope.rotary_dim = 0;
  return {};
}

Status read_olmo(ModelConfig& config) {
  config.qk_norm_whole = true;
  return {};
}

// Layers without rotary embedding slide where the configuration uses a window and does not name the
// layers' types.
Status read_smollm3(const JsonFields& text, ModelConfig& config) {
  const auto rotates = RK_TRY(read_rotating_layers(text, config.layers.size()));
  int64_t window = 0;
  if (RK_TRY(text.boolean("use_sliding_window")).value_or(false) && !text.has("layer_types"))
    window = RK_TRY(text.integer("sliding_window", 1, kLongestContext)).value_or(0);
  for (size_t i = 0; i < config.layers.size(); ++i) {
    if (rotates[i]) continue;
    config.layers[i].rope.rotary_dim = 0;
    if (window == 0) continue;
    config.layers[i].kind = LayerKind::sliding;
    config.layers[i].window = window;
  }
  return {};
}

Status read_ministral3(const JsonFields& text, ModelConfig& config) {
  auto rope = RK_TRY(text.object("rope_parameters"));
  if (!rope) rope = RK_TRY(text.object("rope_scaling"));
  if (!rope) return input_error("{}: expected rope_parameters, found none", text.where());
  config.query_scale_beta =
      static_cast<float>(RK_TRY(rope->number("llama_4_scaling_beta", 0.0, 1e6)).value_or(0.0));
  if (config.query_scale_beta == 0.0f) return {};
  const auto context =
      RK_TRY(rope->integer("original_max_position_embeddings", 1, kLongestContext));
  if (!context)
    return input_error("{}: llama_4_scaling_beta without original_max_position_embeddings",
                       rope->where());
  config.query_scale_context = *context;
  return {};
}

}  // namespace

Status read_family(const JsonFields& text, ModelConfig& config) {
  const std::string& family = config.family;
  if (family == "gemma2") return read_softcaps(text, config);
  if (family == "cohere2") return read_cohere2(text, config);
  if (family == "olmo2" || family == "olmo3") return read_olmo(config);
  if (family == "smollm3") return read_smollm3(text, config);
  if (family == "ministral3") return read_ministral3(text, config);
  if (family == "qwen2")
    config.attention_bias = true;  // of q, k and v; the class has no key for it
  if (family == "qwen2_moe" || family == "qwen3_moe") return read_qwen_experts(text, config);
  if (family == "gpt_oss") return read_gpt_oss(text, config);
  if (family == "llama4") return read_hf_llama4(text, config);
  return {};
}

}  // namespace ringkeep::checkpoint
