// Key names, defaults and rules: transformers' configuration_gemma4.py and
// configuration_gemma4_unified.py.
#include "checkpoint/hf_gemma4.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "checkpoint/hf_rope.h"
#include "checkpoint/limits.h"

namespace ringkeep::checkpoint {

namespace {

// Images may be seen in both directions ("vision"), text is causal.
Status check_direction(const JsonFields& text) {
  constexpr const char* kKey = "use_bidirectional_attention";
  const Json* value = text.find(kKey);
  if (value == nullptr || *value == "vision" || *value == false) return {};
  return input_error("{}: {} = {} is not supported, expected null or \"vision\"", text.where(),
                     kKey, value->dump());
}

struct Heads {
  int64_t dim, kv_heads;
};

Status apply(const JsonFields& where, const Heads& heads, LayerSpec& layer) {
  layer.k_dim = layer.v_dim = static_cast<int>(heads.dim);
  layer.kv_heads = static_cast<int>(heads.kv_heads);
  if (layer.heads % layer.kv_heads != 0)
    return input_error("{}: {} heads, expected a multiple of the {} KV heads", where.where(),
                       layer.heads, layer.kv_heads);
  return {};
}

// Older files say how full layers differ in two keys, newer ones layer by layer.
Status read_heads(const JsonFields& text, bool k_eq_v, ModelConfig& config,
                  const std::vector<bool>& full) {
  const auto layers = RK_TRY(text.object("per_layer_config"));
  const int64_t global_dim =
      RK_TRY(text.integer("global_head_dim", 1, kLargestHeadDim)).value_or(512);
  const auto global_kv = RK_TRY(text.integer("num_global_key_value_heads", 1, kMostHeads));
  for (size_t i = 0; i < config.layers.size(); ++i) {
    LayerSpec& layer = config.layers[i];
    if (!full[i] || layers) continue;
    RK_TRY(apply(text, {global_dim, k_eq_v ? global_kv.value_or(layer.kv_heads) : layer.kv_heads},
                 layer));
  }
  if (!layers) return {};
  for (const auto& [key, value] : layers->json().items()) {
    size_t index = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
    if (error != std::errc() || end != key.data() + key.size() || index >= config.layers.size())
      return input_error("{}: \"{}\" is no layer, expected 0 to {}", layers->where(), key,
                         config.layers.size() - 1);
    const JsonFields fields(value, fmt::format("{}: {}", layers->where(), key));
    if (!value.is_object()) return layers->wrong(key.c_str(), "an object");
    for (const auto& [name, unused] : value.items())
      if (name != "head_dim" && name != "num_key_value_heads")
        return input_error("{}: {} may not differ by layer, only head_dim and num_key_value_heads",
                           fields.where(), name);
    LayerSpec& layer = config.layers[index];
    RK_TRY(apply(
        fields,
        {RK_TRY(fields.integer("head_dim", 1, kLargestHeadDim)).value_or(layer.k_dim),
         RK_TRY(fields.integer("num_key_value_heads", 1, kMostHeads)).value_or(layer.kv_heads)},
        layer));
  }
  return {};
}

Status read_ropes(const JsonFields& given, ModelConfig& config, const std::vector<bool>& full) {
  constexpr const char* kKey = "rope_parameters";
  Json completed = {
      {kKey,
       {{"full_attention",
         {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}, {"rope_theta", 1e6}}},
        {"sliding_attention", {{"rope_theta", 1e4}}}}}};
  if (const auto parameters = RK_TRY(given.object(kKey))) {
    for (const char* kind : {"full_attention", "sliding_attention"})
      if (!RK_TRY(parameters->object(kind)))
        return input_error("{}: expected {} as an object", parameters->where(), kind);
    completed[kKey] = parameters->json();
  }
  const JsonFields text(completed, given.where());
  for (size_t i = 0; i < config.layers.size(); ++i) {
    LayerSpec& layer = config.layers[i];
    const HfRope rope =
        RK_TRY(read_hf_rope(text, config.family, layer.k_dim, config.trained_context));
    layer.rope = full[i] ? rope.full : rope.sliding;
  }
  return {};
}

Status read_experts(const JsonFields& text, ModelConfig& config) {
  if (!RK_TRY(text.boolean("enable_moe_block")).value_or(false)) return {};
  const auto needed = [&](const char* key, int64_t most) -> Result<int64_t> {
    if (const auto value = RK_TRY(text.integer(key, 1, most))) return *value;
    return input_error("{}: enable_moe_block without {}", text.where(), key);
  };
  config.experts = static_cast<int>(RK_TRY(needed("num_experts", kMostExperts)));
  config.experts_used = static_cast<int>(RK_TRY(needed("top_k_experts", config.experts)));
  config.expert_hidden = RK_TRY(needed("moe_intermediate_size", kLargestWidth));
  for (LayerSpec& layer : config.layers) layer.experts = true;
  return {};
}

// A table of embeddings for each layer; null and 0 mean that there is none.
Status read_layer_embedding(const JsonFields& text, const std::string& model_type,
                            ModelConfig& config) {
  constexpr const char* kKey = "hidden_size_per_layer_input";
  const bool unified = model_type.starts_with("gemma4_unified");
  const int64_t fallback = text.json().contains(kKey) || unified ? 0 : 256;
  config.layer_embedding = RK_TRY(text.integer(kKey, 0, kLargestWidth)).value_or(fallback);
  const int64_t rows = RK_TRY(text.integer("vocab_size_per_layer_input", 1, kLargestVocab))
                           .value_or(config.vocab_size);
  if (config.layer_embedding > 0 && rows != config.vocab_size)
    return input_error("{}: vocab_size_per_layer_input is {}, expected vocab_size {}", text.where(),
                       rows, config.vocab_size);
  return {};
}

}  // namespace

bool is_gemma4(const std::string& model_type) {
  return model_type == "gemma4" || model_type == "gemma4_text" || model_type == "gemma4_unified" ||
         model_type == "gemma4_unified_text";
}

Status read_hf_gemma4(const JsonFields& text, const std::string& model_type, ModelConfig& config) {
  RK_TRY(check_direction(text));
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  config.attention_scale = 1.0f;  // q and k are normed
  config.qk_norm = config.v_norm = true;

  std::vector<bool> full;  // [layers] also of those that share
  for (const LayerSpec& layer : config.layers)
    full.push_back(
        (layer.donor < 0 ? layer : config.layers[static_cast<size_t>(layer.donor)]).kind ==
        LayerKind::full);
  if (!full.back())
    return input_error("{}: the last layer is sliding_attention, expected full_attention",
                       text.where());
  const bool k_eq_v = RK_TRY(text.boolean("attention_k_eq_v")).value_or(false);
  const bool wide = RK_TRY(text.boolean("use_double_wide_mlp")).value_or(false);
  const int64_t ffn = config.ffn_hidden;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    LayerSpec& layer = config.layers[i];
    const bool owns = layer.donor < 0;
    layer.v_from_k = k_eq_v && full[i] && owns;
    if (wide) layer.ffn_hidden = owns ? ffn : 2 * ffn;
    config.ffn_hidden = std::max(config.ffn_hidden, layer.ffn_hidden);
  }
  RK_TRY(read_heads(text, k_eq_v, config, full));
  RK_TRY(read_ropes(text, config, full));
  RK_TRY(read_layer_embedding(text, model_type, config));
  return read_experts(text, config);
}

}  // namespace ringkeep::checkpoint
