// Key names and rules: llama.cpp's gemma4 and its converter.
#include "checkpoint/gguf_gemma4.h"

#include <algorithm>

#include "checkpoint/gguf_gating.h"
#include "checkpoint/hf_layers.h"
#include "checkpoint/limits.h"

namespace ringkeep::checkpoint {

namespace {

Result<int64_t> integer(const GgufFile& file, std::string_view suffix, int64_t least, int64_t most,
                        int64_t fallback) {
  const std::string key = fmt::format("gemma4.{}", suffix);
  const int64_t value = RK_TRY(file.integer(key, fallback));
  if (value < least || value > most)
    return input_error("{}: {}: {}, expected {} to {}", file.name(), key, value, least, most);
  return value;
}

// Sliding layers have keys of their own; the general ones are those of full layers. So are the
// factors of rope_freqs, which let some pairs stand still.
Status read_sliding_heads(const GgufFile& file, ModelConfig& config) {
  const int64_t full_dim = config.layers.front().k_dim;
  const int64_t k_dim =
      RK_TRY(integer(file, "attention.key_length_swa", 1, kLargestHeadDim, full_dim));
  const int64_t v_dim =
      RK_TRY(integer(file, "attention.value_length_swa", 1, kLargestHeadDim, full_dim));
  const int64_t rotary = RK_TRY(integer(file, "rope.dimension_count_swa", 0, k_dim, k_dim));
  if (rotary % 2 != 0)
    return input_error("{}: gemma4.rope.dimension_count_swa: {}, expected an even number",
                       file.name(), rotary);
  for (LayerSpec& layer : config.layers) {
    if (layer.kind != LayerKind::sliding) continue;
    layer.k_dim = static_cast<int>(k_dim);
    layer.v_dim = static_cast<int>(v_dim);
    layer.rope.rotary_dim = static_cast<int>(rotary);
    layer.rope.factors.clear();
  }
  return {};
}

Status read_experts(const GgufFile& file, ModelConfig& config) {
  config.experts = static_cast<int>(RK_TRY(integer(file, "expert_count", 0, kMostExperts, 0)));
  if (config.experts == 0) return {};
  config.experts_used =
      static_cast<int>(RK_TRY(integer(file, "expert_used_count", 1, config.experts, 0)));
  RK_TRY(read_expert_gating(file, "gemma4", config));
  // One number, or one for each layer.
  const auto widths = RK_TRY(file.integers("gemma4.expert_feed_forward_length"));
  for (const int64_t width : widths)
    if (width != widths.front() || width < 1 || width > kLargestWidth)
      return input_error(
          "{}: gemma4.expert_feed_forward_length: {}, expected one size from 1 to {}", file.name(),
          width, kLargestWidth);
  if (widths.empty())
    return input_error("{}: the metadata lacks gemma4.expert_feed_forward_length", file.name());
  config.expert_hidden = widths.front();
  for (LayerSpec& layer : config.layers) layer.experts = true;
  return {};
}

}  // namespace

Status read_gguf_gemma4(const GgufModel& model, ModelConfig& config) {
  const GgufFile& file = model.head();
  config.attention_scale = 1.0f;  // q and k are normed
  config.qk_norm = config.v_norm = true;
  if (!file.has("gemma4.attention.sliding_window_pattern"))
    return input_error("{}: the metadata lacks gemma4.attention.sliding_window_pattern",
                       file.name());
  RK_TRY(read_sliding_heads(file, config));
  for (const LayerSpec& layer : config.layers)
    if (layer.k_dim != layer.v_dim)
      return input_error("{}: heads of K {} and V {}, expected one size", file.name(), layer.k_dim,
                         layer.v_dim);
  if (model.complete && model.find_tensor("rope_freqs.weight") == nullptr)
    return input_error("{}: tensor rope_freqs.weight is missing", file.name());

  const auto count = static_cast<int64_t>(config.layers.size());
  const int64_t shared = RK_TRY(integer(file, "attention.shared_kv_layers", 0, count - 1, 0));
  RK_TRY(share_last_layers(file.name(), shared, config.layers));
  const auto widths = RK_TRY(file.integers("gemma4.feed_forward_length"));
  for (size_t i = 0; i < config.layers.size(); ++i) {
    LayerSpec& layer = config.layers[i];
    if (widths.size() == config.layers.size()) layer.ffn_hidden = widths[i];
    // The metadata does not say so: there is then no projection.
    layer.v_from_k = layer.kind == LayerKind::full && model.complete &&
                     model.find_tensor(fmt::format("blk.{}.attn_v.weight", i)) == nullptr;
  }
  config.layer_embedding =
      RK_TRY(integer(file, "embedding_length_per_layer_input", 0, kLargestWidth, 0));
  return read_experts(file, config);
}

}  // namespace ringkeep::checkpoint
