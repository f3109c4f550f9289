#include "checkpoint/hf_layers.h"

#include <algorithm>
#include <string_view>

#include "checkpoint/limits.h"

namespace ringkeep::checkpoint {

namespace {

bool sees_everything(std::string_view type) {
  return type == "full_attention" || type == "attention" || type == "global_attention" ||
         type == "full";
}
bool slides(std::string_view type) {
  return type == "sliding_attention" || type == "local_attention" || type == "sliding" ||
         type == "sliding_window_attention";
}

// An array of strings or of integers under `key`, one for each layer.
Result<std::vector<std::string>> names_of(const JsonFields& config, const char* key, size_t layers,
                                          bool cycle) {
  const Json* list = config.find(key);
  if (!list->is_array() || list->empty()) return config.wrong(key, "an array of layer types");
  if (!cycle && list->size() != layers)
    return input_error("{}: {}: {} entries for {} layers", config.where(), key, list->size(),
                       layers);
  std::vector<std::string> result;
  for (size_t i = 0; i < layers; ++i) {
    const Json& entry = (*list)[i % list->size()];
    if (!entry.is_string())
      return input_error("{}: {}[{}]: expected a string", config.where(), key, i % list->size());
    result.push_back(entry.get<std::string>());
  }
  return result;
}

// Layers named by index are attention, the others `other`.
Result<std::vector<std::string>> indexed(const JsonFields& config, const char* key, size_t layers,
                                         const char* other, size_t first = 0) {
  std::vector<std::string> result(layers, other);
  const Json* list = config.find(key);
  if (!list->is_array()) return config.wrong(key, "an array of layer indices");
  for (const Json& entry : *list) {
    if (!entry.is_number_unsigned() || entry.get<uint64_t>() < first ||
        entry.get<uint64_t>() - first >= layers)
      return input_error("{}: {}: expected indices of {} layers, from {}", config.where(), key,
                         layers, first);
    result[entry.get<size_t>() - first] = "full_attention";
  }
  return result;
}

std::vector<std::string> periodic(size_t layers, int64_t period, int64_t offset,
                                  const char* between) {
  std::vector<std::string> result;
  for (size_t i = 0; i < layers; ++i)
    result.emplace_back(static_cast<int64_t>(i) % period == offset ? "full_attention" : between);
  return result;
}

// Nemotron-H: one letter for each layer.
Result<std::vector<std::string>> from_letters(const JsonFields& config, size_t layers) {
  constexpr const char* kKey = "hybrid_override_pattern";
  const std::string letters = RK_TRY(config.text(kKey)).value_or("");
  if (letters.size() != layers)
    return input_error("{}: {}: {} letters for {} layers", config.where(), kKey, letters.size(),
                       layers);
  std::vector<std::string> result;
  for (const char letter : letters) switch (letter) {
      case '*': result.emplace_back("full_attention"); break;
      case 'M': result.emplace_back("mamba"); break;
      case '-': result.emplace_back("mlp"); break;
      case 'E': result.emplace_back("moe"); break;
      default: return config.wrong(kKey, "letters of M, *, - and E");
    }
  return result;
}

// The type names of hybrid models that have no layer_types; empty when this is none.
Result<std::vector<std::string>> hybrid_types(const JsonFields& config, const std::string& type,
                                              size_t layers) {
  if (config.has("layers_block_type")) return names_of(config, "layers_block_type", layers, false);
  if (config.has("block_types")) return names_of(config, "block_types", layers, true);
  if (config.has("hybrid_override_pattern")) return from_letters(config, layers);
  if (config.has("full_attn_idxs")) return indexed(config, "full_attn_idxs", layers, "conv");
  if (config.has("attn_layer_indices"))
    return indexed(config, "attn_layer_indices", layers, "mamba");
  if (type == "falcon_h1") return std::vector<std::string>(layers, "attention + mamba");
  if (type == "jamba") {
    const int64_t period = RK_TRY(config.integer("attn_layer_period", 1, kMostLayers)).value_or(8);
    const int64_t offset = RK_TRY(config.integer("attn_layer_offset", 0, period - 1))
                               .value_or(std::min<int64_t>(4, period - 1));
    return periodic(layers, period, offset, "mamba");
  }
  if (const auto kimi = RK_TRY(config.object("linear_attn_config"));
      kimi && kimi->has("full_attn_layers"))  // counted from 1
    return indexed(*kimi, "full_attn_layers", layers, "linear_attention", 1);
  if (config.has("full_attention_interval") || type == "qwen3_next") {
    const int64_t interval =
        RK_TRY(config.integer("full_attention_interval", 1, kMostLayers)).value_or(4);
    return periodic(layers, interval, interval - 1, "linear_attention");
  }
  return std::vector<std::string>();
}

// The type names of models that mix full and sliding layers by rule.
Result<std::vector<std::string>> windowed_types(const JsonFields& config, const std::string& type,
                                                int64_t window, size_t layers) {
  std::vector<std::string> full(layers, "full_attention");
  if (window == 0 || type == "llama" || type == "smollm3") return full;
  if (type.starts_with("gemma3n")) return periodic(layers, 5, 4, "sliding_attention");
  if (type == "gemma3" || type == "gemma3_text" || config.has("sliding_window_pattern")) {
    const int64_t period =
        RK_TRY(config.integer("sliding_window_pattern", 1, kMostLayers)).value_or(6);
    return periodic(layers, period, period - 1, "sliding_attention");
  }
  if (type.starts_with("gemma4")) {  // and the last one is full, whatever the count
    auto types = periodic(layers, 6, 5, "sliding_attention");
    types.back() = "full_attention";
    return types;
  }
  if (type == "gpt_oss") return periodic(layers, 2, 1, "sliding_attention");
  if (type == "gemma2") return periodic(layers, 2, 1, "sliding_attention");
  if (type == "cohere2" || type == "olmo3") return periodic(layers, 4, 3, "sliding_attention");
  const bool by_default = !type.starts_with("qwen");
  if (!RK_TRY(config.boolean("use_sliding_window")).value_or(by_default)) return full;
  // Qwen: the first max_window_layers see everything.
  int64_t first = 0;
  if (type.starts_with("qwen"))
    first = RK_TRY(config.integer("max_window_layers", 0, kMostLayers)).value_or(28);
  for (size_t i = static_cast<size_t>(first); i < layers; ++i) full[i] = "sliding_attention";
  return full;
}

}  // namespace

Status share_last_layers(const std::string& where, int64_t shared, std::vector<LayerSpec>& layers) {
  const auto count = static_cast<int64_t>(layers.size());
  for (int64_t i = count - shared; i < count; ++i) {
    LayerSpec& layer = layers[static_cast<size_t>(i)];
    int64_t donor = count - shared - 1;
    while (donor >= 0 && layers[static_cast<size_t>(donor)].kind != layer.kind) --donor;
    if (donor < 0)
      return input_error("{}: layer {} shares a cache, but no earlier layer is {}", where, i,
                         layer_kind_name(layer.kind));
    layer.kind = LayerKind::shared;
    layer.window = 0;
    layer.donor = static_cast<int>(donor);
  }
  return {};
}

Result<int64_t> read_chunk_size(const JsonFields& config, const std::string& model_type) {
  constexpr const char* kKey = "attention_chunk_size";
  const bool absent = !config.json().is_object() || !config.json().contains(kKey);
  return RK_TRY(config.integer(kKey, 1, kLongestContext))
      .value_or(absent && model_type.starts_with("llama4") ? 8192 : 0);
}

Result<std::vector<bool>> read_rotating_layers(const JsonFields& config, size_t layers) {
  constexpr const char* kKey = "no_rope_layers";
  const int64_t interval =
      RK_TRY(config.integer("no_rope_layer_interval", 1, kMostLayers)).value_or(4);
  std::vector<bool> rotates(layers);
  const Json* list = config.find(kKey);
  if (list == nullptr || (list->is_array() && list->empty())) {
    for (size_t i = 0; i < layers; ++i) rotates[i] = static_cast<int64_t>(i + 1) % interval != 0;
    return rotates;
  }
  if (!list->is_array() || list->size() < layers)
    return config.wrong(kKey, fmt::format("an array of {} flags", layers));
  for (size_t i = 0; i < layers; ++i) {
    const Json& flag = (*list)[i];
    if (!flag.is_boolean() && !flag.is_number_integer())
      return input_error("{}: {}[{}]: expected 0 or 1", config.where(), kKey, i);
    rotates[i] = flag.is_boolean() ? flag.get<bool>() : flag.get<int64_t>() != 0;
  }
  return rotates;
}

Status read_layer_kinds(const JsonFields& config, const std::string& model_type,
                        std::vector<LayerSpec>& layers) {
  int64_t window_default = model_type.starts_with("gemma3") ? 4096 : 0;
  for (const char* type : {"mistral", "ministral", "gemma2", "cohere2", "olmo3", "qwen2"})
    if (model_type == type) window_default = 4096;
  if (model_type == "gpt_oss") window_default = 128;
  if (model_type.starts_with("gemma3n")) window_default = 512;
  if (model_type.starts_with("gemma4"))
    window_default = model_type.starts_with("gemma4_unified") ? 1024 : 512;
  // null turns the window off; an absent key means the family's default.
  int64_t window = RK_TRY(config.integer("sliding_window", 0, kLongestContext)).value_or(0);
  if (config.json().is_object() && !config.json().contains("sliding_window"))
    window = window_default;
  const int64_t chunk = RK_TRY(read_chunk_size(config, model_type));

  std::vector<std::string> types;
  if (config.has("layer_types"))
    types = RK_TRY(names_of(config, "layer_types", layers.size(), false));
  if (types.empty()) types = RK_TRY(hybrid_types(config, model_type, layers.size()));
  if (types.empty()) types = RK_TRY(windowed_types(config, model_type, window, layers.size()));

  for (size_t i = 0; i < layers.size(); ++i) {
    LayerSpec& layer = layers[i];
    if (sees_everything(types[i])) {
      layer.kind = LayerKind::full;
    } else if (slides(types[i])) {
      if (window == 0)
        return input_error("{}: layer {} is {}, but sliding_window gives no window", config.where(),
                           i, types[i]);
      layer.kind = LayerKind::sliding;
      layer.window = window;
    } else if (types[i] == "chunked_attention") {
      if (chunk == 0)
        return input_error("{}: layer {} is {}, but there is no attention_chunk_size",
                           config.where(), i, types[i]);
      layer.kind = LayerKind::chunked;
      layer.window = chunk;
    } else {
      const bool plain = types[i] == "mlp" || types[i] == "moe";  // Nemotron-H
      layer.kind = plain ? LayerKind::cacheless : LayerKind::recurrent;
      layer.note = types[i];
    }
    if (layer.kind == LayerKind::full && config.has("kv_lora_rank"))
      layer.kind = LayerKind::latent;  // DeepSeek-V2 and V3, Kimi
  }
  const auto most = static_cast<int64_t>(layers.size()) - 1;
  const int64_t shared = RK_TRY(config.integer("num_kv_shared_layers", 0, most))
                             .value_or(model_type.starts_with("gemma3n") ? 15 : 0);
  return share_last_layers(config.where(), shared, layers);
}

}  // namespace ringkeep::checkpoint
