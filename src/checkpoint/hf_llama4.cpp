// Key names, defaults and rules: transformers' configuration_llama4.py.
#include "checkpoint/hf_llama4.h"

#include "checkpoint/hf_layers.h"
#include "checkpoint/limits.h"

namespace ringkeep::checkpoint {

namespace {

// Layers without rotary embedding see everything, the others their chunk, unless layer_types says
// otherwise.
Status read_positions(const JsonFields& text, ModelConfig& config) {
  const auto rotates = RK_TRY(read_rotating_layers(text, config.layers.size()));
  const int64_t chunk = RK_TRY(read_chunk_size(text, config.family));
  for (size_t i = 0; i < config.layers.size(); ++i) {
    LayerSpec& layer = config.layers[i];
    if (!rotates[i]) layer.rope.rotary_dim = 0;
    if (config.qk_norm) layer.rope.attention_factor = 1.0;  // yarn's; the norm takes it out again
    if (text.has("layer_types") || !rotates[i] || chunk == 0) continue;
    layer.kind = LayerKind::chunked;
    layer.window = chunk;
  }
  return {};
}

// attn_temperature_tuning is a flag; files of the first release have a number instead.
Status read_temperature(const JsonFields& text, ModelConfig& config) {
  constexpr const char* kKey = "attn_temperature_tuning";
  const Json* tuned = text.find(kKey);
  if (tuned != nullptr && !tuned->is_boolean() && !tuned->is_number_integer())
    return text.wrong(kKey, "true or false");
  config.query_scale_context =
      RK_TRY(text.integer("floor_scale", 1, kLongestContext)).value_or(8192);
  const double beta = RK_TRY(text.number("attn_scale", 0.0, 1e6)).value_or(0.1);
  if (tuned != nullptr && (*tuned == false || *tuned == 0)) return {};
  config.query_scale_beta = static_cast<float>(beta);
  config.query_scale_shift = 1;
  config.query_scale_no_rope = true;
  return {};
}

// moe_layers lists the layers with experts; without it they are every
// interleave_moe_layer_step-th.
Status read_sparse_layers(const JsonFields& text, ModelConfig& config) {
  constexpr const char* kKey = "moe_layers";
  const Json* list = text.find(kKey);
  if (list == nullptr) {
    const int64_t step =
        RK_TRY(text.integer("interleave_moe_layer_step", 1, kMostLayers)).value_or(1);
    for (size_t i = 0; i < config.layers.size(); ++i)
      config.layers[i].experts = static_cast<int64_t>(i + 1) % step == 0;
    return {};
  }
  if (!list->is_array()) return text.wrong(kKey, "an array of layer indices");
  for (const Json& index : *list) {
    if (!index.is_number_unsigned() || index.get<uint64_t>() >= config.layers.size())
      return input_error("{}: {}: expected indices of {} layers", text.where(), kKey,
                         config.layers.size());
    config.layers[index.get<size_t>()].experts = true;
  }
  return {};
}

// intermediate_size is that of an expert, intermediate_size_mlp that of a dense layer.
Status read_feed_forwards(const JsonFields& text, ModelConfig& config) {
  RK_TRY(read_sparse_layers(text, config));
  bool dense = false, sparse = false;
  for (const LayerSpec& layer : config.layers) (layer.experts ? sparse : dense) = true;
  const int64_t width = config.ffn_hidden;
  if (dense)
    config.ffn_hidden =
        RK_TRY(text.integer("intermediate_size_mlp", 1, kLargestWidth)).value_or(16384);
  if (!sparse) return {};
  if (width < 1) return text.wrong("intermediate_size", "the width of an expert");
  config.experts =
      static_cast<int>(RK_TRY(text.integer("num_local_experts", 1, kMostExperts)).value_or(16));
  config.experts_used =
      static_cast<int>(RK_TRY(text.integer("num_experts_per_tok", 1, config.experts)).value_or(1));
  config.expert_hidden = config.shared_expert_hidden = width;
  config.expert_sigmoid_input = true;
  config.expert_renormalize = config.shared_expert_gate = false;
  return {};
}

}  // namespace

Status read_hf_llama4(const JsonFields& text, ModelConfig& config) {
  config.qk_norm = RK_TRY(text.boolean("use_qk_norm")).value_or(true);
  config.qk_norm_unweighted = config.qk_norm;
  RK_TRY(read_positions(text, config));
  RK_TRY(read_temperature(text, config));
  return read_feed_forwards(text, config);
}

}  // namespace ringkeep::checkpoint
