// Key names and rules: llama.cpp's gemma3n and its converter.
#include "checkpoint/gguf_gemma3n.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/hf_layers.h"
#include "checkpoint/limits.h"

namespace ringkeep::checkpoint {

namespace {

// What llama.cpp takes for granted, and files may leave unsaid.
constexpr int64_t kLayersWithCache = 20;
constexpr size_t kSparseLayers = 10;
constexpr float kSparseDeviations = 1.6448533535f;  // of a share of 0.95

Result<int64_t> integer(const GgufFile& file, std::string_view suffix, int64_t least, int64_t most,
                        int64_t fallback) {
  const std::string key = fmt::format("gemma3n.{}", suffix);
  const int64_t value = RK_TRY(file.integer(key, fallback));
  if (value < least || value > most)
    return input_error("{}: {}: {}, expected {} to {}", file.name(), key, value, least, most);
  return value;
}

// Dense layers have minus infinity.
Status read_sparsity(const GgufFile& file, std::vector<LayerSpec>& layers) {
  constexpr const char* kKey = "gemma3n.activation_sparsity_scale";
  auto scales = RK_TRY(file.floats(kKey));
  if (!file.has(kKey)) {
    scales.assign(layers.size(), -INFINITY);
    std::fill_n(scales.begin(), std::min(kSparseLayers, layers.size()), kSparseDeviations);
  }
  if (scales.size() != layers.size())
    return input_error("{}: {}: {} values for {} layers", file.name(), kKey, scales.size(),
                       layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!(scales[i] < INFINITY))
      return input_error("{}: {}[{}]: {}, expected a number", file.name(), kKey, i, scales[i]);
    if (scales[i] > -INFINITY) layers[i].gate_deviations = scales[i];
  }
  return {};
}

}  // namespace

Status read_gguf_gemma3n(const GgufModel& model, ModelConfig& config) {
  const GgufFile& file = model.head();
  config.attention_scale = 1.0f;  // q and k are normed
  config.attention_softcap = 0.0f;
  config.qk_norm = config.v_norm = true;
  if (!file.has("gemma3n.final_logit_softcapping")) config.logit_softcap = 30.0f;
  if (!file.has("gemma3n.attention.sliding_window"))
    return input_error("{}: the metadata lacks gemma3n.attention.sliding_window", file.name());
  const auto count = static_cast<int64_t>(config.layers.size());
  RK_TRY(share_last_layers(file.name(),
                           RK_TRY(integer(file, "attention.shared_kv_layers", 0, count - 1,
                                          std::max<int64_t>(0, count - kLayersWithCache))),
                           config.layers));
  const auto widths = RK_TRY(file.integers("gemma3n.feed_forward_length"));
  for (size_t i = 0; i < config.layers.size() && widths.size() == config.layers.size(); ++i)
    config.layers[i].ffn_hidden = widths[i];
  RK_TRY(read_sparsity(file, config.layers));

  config.layer_embedding =
      RK_TRY(integer(file, "embedding_length_per_layer_input", 1, kLargestWidth, 256));
  if (const auto* table = model.find_tensor("per_layer_token_embd.weight"))
    config.layer_vocab = table->rows();
  config.altup_streams =
      static_cast<int>(RK_TRY(integer(file, "altup.num_inputs", 1, kMostStreams, 4)));
  config.altup_active =
      static_cast<int>(RK_TRY(integer(file, "altup.active_idx", 0, config.altup_streams - 1, 0)));
  config.altup_scale_output = true;
  config.laurel_rank = 64;  // there is no key for it
  if (const auto* left = model.find_tensor("blk.0.laurel_l.weight")) {
    if (left->shape.size() != 2 || left->rows() < 1 || left->rows() > kLargestWidth)
      return input_error("{}: blk.0.laurel_l.weight: expected [rank, hidden]", file.name());
    config.laurel_rank = left->rows();
  }
  return {};
}

}  // namespace ringkeep::checkpoint
