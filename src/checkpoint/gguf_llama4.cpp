// Key names and rules: llama.cpp's llama4 and its converter, which writes no key for what is the
// same in every published model; attention.chunk_size and use_qk_norm are ollama's.
#include "checkpoint/gguf_llama4.h"

#include "checkpoint/limits.h"

namespace ringkeep::checkpoint {

namespace {

class Keys {
 public:
  explicit Keys(const GgufFile& file) : file_(file) {}

  Result<int64_t> integer(std::string_view suffix, int64_t least, int64_t most,
                          int64_t fallback) const {
    const std::string key = fmt::format("llama4.{}", suffix);
    const int64_t value = RK_TRY(file_.integer(key, fallback));
    if (value < least || value > most)
      return input_error("{}: {}: {}, expected {} to {}", file_.name(), key, value, least, most);
    return value;
  }
  // A key that has one value, or is absent.
  Status only(std::string_view suffix, int64_t value) const {
    RK_TRY(integer(suffix, value, value, value));
    return {};
  }

 private:
  const GgufFile& file_;
};

// What other families say of their experts: here it is as llama.cpp has it, sigmoids (2) of one
// group, which are left as they are, and one expert of every token.
Status check_gating(const GgufFile& file, const Keys& keys) {
  constexpr int64_t kSigmoid = 2;
  RK_TRY(keys.only("expert_gating_func", kSigmoid));
  RK_TRY(keys.only("expert_shared_count", 1));
  RK_TRY(keys.integer("expert_group_count", 0, 1, 0));
  if (RK_TRY(file.boolean("llama4.expert_weights_norm", false)))
    return input_error("{}: llama4.expert_weights_norm is not supported", file.name());
  const double scale = RK_TRY(file.number("llama4.expert_weights_scale", 1.0));
  if (scale != 0.0 && scale != 1.0)
    return input_error("{}: llama4.expert_weights_scale: {} is not supported", file.name(), scale);
  return {};
}

Status read_experts(const Keys& keys, ModelConfig& config) {
  config.experts = static_cast<int>(RK_TRY(keys.integer("expert_count", 1, kMostExperts, 0)));
  config.experts_used =
      static_cast<int>(RK_TRY(keys.integer("expert_used_count", 1, config.experts, 0)));
  config.expert_hidden = RK_TRY(keys.integer("expert_feed_forward_length", 1, kLargestWidth, 0));
  config.shared_expert_hidden = config.expert_hidden;
  config.expert_sigmoid_input = true;
  config.expert_renormalize = config.shared_expert_gate = false;
  const int64_t step = RK_TRY(keys.integer("interleave_moe_layer_step", 1, kMostLayers, 0));
  bool dense = false;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    config.layers[i].experts = static_cast<int64_t>(i + 1) % step == 0;
    dense = dense || !config.layers[i].experts;
  }
  if (!dense) config.ffn_hidden = config.expert_hidden;
  return {};
}

}  // namespace

Status read_gguf_llama4(const GgufModel& model, ModelConfig& config) {
  const GgufFile& file = model.head();
  const Keys keys(file);
  if (file.has("llama4.rope.freq_base_swa"))
    return input_error("{}: llama4.rope.freq_base_swa is not supported", file.name());
  RK_TRY(keys.only("attention.sliding_window_pattern", 4));
  const int64_t chunk = RK_TRY(keys.integer("attention.chunk_size", 1, kLongestContext, 8192));
  RK_TRY(keys.only("attention.sliding_window", chunk));
  for (size_t i = 0; i < config.layers.size(); ++i) {
    LayerSpec& layer = config.layers[i];
    if (i % 4 == 3) {
      layer.rope.rotary_dim = 0;
      layer.kind = LayerKind::full;
      layer.window = 0;
    } else {
      layer.kind = LayerKind::chunked;
      layer.window = chunk;
    }
  }
  config.query_scale_context =
      RK_TRY(keys.integer("attention.temperature_length", 1, kLongestContext, 8192));
  const double beta = RK_TRY(file.number("llama4.attention.temperature_scale", 0.1));
  if (!(beta >= 0.0 && beta <= 1e6))
    return input_error("{}: llama4.attention.temperature_scale: {}, expected 0 to 1e6", file.name(),
                       beta);
  config.query_scale_beta = static_cast<float>(beta);
  config.query_scale_shift = 1;
  config.query_scale_no_rope = true;
  RK_TRY(check_gating(file, keys));
  RK_TRY(read_experts(keys, config));
  // Maverick alone has no norms of q and k; as llama.cpp tells it.
  config.qk_norm = RK_TRY(file.boolean("llama4.use_qk_norm", config.experts != 128));
  config.qk_norm_unweighted = config.qk_norm;
  for (LayerSpec& layer : config.layers)
    if (config.qk_norm) layer.rope.attention_factor = 1.0;  // yarn's; the norm takes it out again
  return {};
}

}  // namespace ringkeep::checkpoint
