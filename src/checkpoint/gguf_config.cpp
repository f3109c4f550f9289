// ModelConfig from GGUF metadata. Key names and defaults: gguf-py's constants and what the
// conversion scripts of llama.cpp write.
#include <algorithm>
#include <cmath>
#include <string>

#include "checkpoint/byte_reader.h"
#include "checkpoint/gguf_gating.h"
#include "checkpoint/gguf_gemma3n.h"
#include "checkpoint/gguf_gemma4.h"
#include "checkpoint/gguf_llama4.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/limits.h"

namespace ringkeep::checkpoint {

namespace {

// Reads keys below "<architecture>.".
class ArchKeys {
 public:
  ArchKeys(const GgufFile& file, std::string arch) : file_(file), arch_(std::move(arch)) {}

  std::string key(std::string_view suffix) const { return fmt::format("{}.{}", arch_, suffix); }
  bool has(std::string_view suffix) const { return file_.has(key(suffix)); }

  Result<int64_t> integer(std::string_view suffix, int64_t least, int64_t most) const {
    return check(suffix, RK_TRY(file_.integer(key(suffix))), least, most);
  }
  Result<int64_t> integer(std::string_view suffix, int64_t least, int64_t most,
                          int64_t fallback) const {
    return check(suffix, RK_TRY(file_.integer(key(suffix), fallback)), least, most);
  }
  Result<double> number(std::string_view suffix, double least, double most, double fallback) const {
    const double value = RK_TRY(file_.number(key(suffix), fallback));
    if (!(value >= least && value <= most))
      return input_error("{}: {}: {}, expected {} to {}", file_.name(), key(suffix), value, least,
                         most);
    return value;
  }
  Result<std::string> text(std::string_view suffix, std::string_view fallback) const {
    return file_.text(key(suffix), fallback);
  }
  // One value for each layer: an array, or a scalar for all; `fallback` when the key is missing.
  Result<std::vector<int64_t>> per_layer(std::string_view suffix, int64_t layers, int64_t most,
                                         int64_t fallback) const {
    std::vector<int64_t> values = RK_TRY(file_.integers(key(suffix)));
    if (!has(suffix)) values = {fallback};
    if (values.size() == 1) values.assign(static_cast<size_t>(layers), values[0]);
    if (static_cast<int64_t>(values.size()) != layers)
      return input_error("{}: {}: {} values for {} layers", file_.name(), key(suffix),
                         values.size(), layers);
    for (const int64_t value : values) RK_TRY(check(suffix, value, 0, most));
    return values;
  }

 private:
  Result<int64_t> check(std::string_view suffix, int64_t value, int64_t least, int64_t most) const {
    if (value < least || value > most)
      return input_error("{}: {}: {}, expected {} to {}", file_.name(), key(suffix), value, least,
                         most);
    return value;
  }
  const GgufFile& file_;
  std::string arch_;
};

// Every how many layers a full one comes, where the metadata does not say; 0: every layer slides,
// 1: none does.
int64_t default_period(const std::string& arch) {
  if (arch == "gemma3") return 6;
  if (arch == "gemma3n") return 5;
  if (arch == "gemma2" || arch == "gpt-oss") return 2;
  if (arch == "cohere2" || arch == "olmo2") return 4;
  if (arch == "llama" || arch == "mistral3" || arch == "phi3") return 0;
  return 1;
}

// Which layers slide: an array of flags, or a period n whose last layer is full.
Result<std::vector<bool>> sliding_layers(const GgufFile& file, const ArchKeys& keys,
                                         const std::string& arch, int64_t layers) {
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  const auto count = static_cast<size_t>(layers);
  std::vector<bool> result(count, false);
  const std::string pattern_key = keys.key(kPattern);
  const GgufValue* pattern = file.find(pattern_key);
  if (pattern != nullptr && pattern->type == GgufType::array) {
    const auto flags = RK_TRY(keys.per_layer(kPattern, layers, 1, 0));
    for (size_t i = 0; i < count; ++i) result[i] = flags[i] != 0;
    return result;
  }
  const int64_t period = RK_TRY(keys.integer(kPattern, 0, kMostLayers, default_period(arch)));
  for (int64_t i = 0; i < layers; ++i)
    result[static_cast<size_t>(i)] = period == 0 || i % period < period - 1;
  return result;
}

double yarn_mscale(double factor, double multiplier) {
  return factor > 1.0 ? 0.1 * multiplier * std::log(factor) + 1.0 : 1.0;
}

Result<RopeSpec> read_rope(const GgufFile& file, const ArchKeys& keys, int64_t trained_context) {
  RopeSpec rope;
  rope.theta = RK_TRY(keys.number("rope.freq_base", 1.0, kLargestScale, 10000.0));
  const std::string type = RK_TRY(keys.text("rope.scaling.type", "linear"));
  double factor = RK_TRY(keys.number("rope.scaling.factor", 0.0, kLargestScale, 0.0));
  if (factor == 0.0) factor = RK_TRY(keys.number("rope.scale_linear", 0.0, kLargestScale, 0.0));
  if (factor == 0.0) factor = 1.0;
  rope.original_context = static_cast<int>(
      RK_TRY(keys.integer("rope.scaling.original_context_length", 0, kLongestContext - 1,
                          std::min(trained_context, kLongestContext - 1))));
  const double attention = RK_TRY(keys.number("rope.scaling.attn_factor", 0, kLargestScale, 1.0));
  if (type == "yarn") {
    rope.scaling = RopeSpec::Scaling::yarn;
    rope.factor = factor;
    rope.beta_fast = RK_TRY(keys.number("rope.scaling.yarn_beta_fast", 1e-6, 1e6, 32.0));
    rope.beta_slow = RK_TRY(keys.number("rope.scaling.yarn_beta_slow", 1e-6, 1e6, 1.0));
    // yarn_log_multiplier is what Hugging Face calls mscale_all_dim, beside an mscale of 1.
    const double all_dim = RK_TRY(keys.number("rope.scaling.yarn_log_multiplier", 0, 1e6, 0.0));
    const double implied = yarn_mscale(factor, 1.0) / yarn_mscale(factor, all_dim);
    rope.attention_factor =
        attention * RK_TRY(keys.number("rope.scaling.yarn_attn_factor", 1e-6, 1e6, implied));
    if (rope.original_context <= 0 || rope.theta <= 1.0)
      return input_error("{}: {}: yarn needs an original context and a theta above 1", file.name(),
                         keys.key("rope.scaling.type"));
  } else if (type == "linear") {
    if (factor != 1.0) rope.scaling = RopeSpec::Scaling::linear;
    rope.factor = factor;
  } else if (type == "longrope") {
    rope.attention_factor = attention;  // the factors are tensors
  } else if (type != "none") {
    return input_error("{}: {} is \"{}\", expected none, linear, yarn or longrope", file.name(),
                       keys.key("rope.scaling.type"), type);
  }
  return rope;
}

// A tensor f32 [rotary_dim / 2] of divisors of the frequencies; empty where there is none.
Result<std::vector<float>> factors_of(const GgufModel& model, const char* name) {
  const quant::SourceTensor* tensor = model.find_tensor(name);
  if (tensor == nullptr) return std::vector<float>();
  if (tensor->type != quant::SourceType::f32 || tensor->shape.size() != 1)
    return input_error("{}: {}: expected one row of F32, found {} dimensions of {}",
                       model.head().name(), name, tensor->shape.size(), tensor->type_name);
  const auto count = static_cast<size_t>(tensor->shape[0]);
  std::vector<float> factors(count);
  for (size_t i = 0; i < count; ++i) {
    factors[i] = load_as<float>(tensor->data + i * sizeof(float));
    if (!(factors[i] > 0.0f) || std::isinf(factors[i]))
      return input_error("{}: {}[{}] is {}, expected a positive number", model.head().name(), name,
                         i, factors[i]);
  }
  return factors;
}

// Phi-3's two sets, in files whose metadata need not name a scaling: original context and attention
// factor are there all the same.
Status read_long_rope(const GgufModel& model, const ArchKeys& keys, ModelConfig& config) {
  const auto near = RK_TRY(factors_of(model, "rope_factors_short.weight"));
  const auto far = RK_TRY(factors_of(model, "rope_factors_long.weight"));
  if (near.empty() && far.empty()) return {};
  const double attention = RK_TRY(keys.number("rope.scaling.attn_factor", 0, kLargestScale, 1.0));
  for (LayerSpec& layer : config.layers) {
    const auto pairs = static_cast<size_t>(layer.rope.rotary_dim / 2);
    if (near.size() != pairs || far.size() != pairs)
      return input_error(
          "{}: rope_factors_short.weight and rope_factors_long.weight have {} and {} elements, "
          "expected {} (half of the rotary dimensions)",
          model.head().name(), near.size(), far.size(), pairs);
    layer.rope.scaling = RopeSpec::Scaling::longrope;
    layer.rope.attention_factor = attention;
    layer.rope.factors = near;
    layer.rope.long_factors = far;
  }
  return {};
}

// rope_freqs.weight: Llama 3 scaling.
Status read_rope_factors(const GgufModel& model, ModelConfig& config) {
  const auto factors = RK_TRY(factors_of(model, "rope_freqs.weight"));
  const size_t count = factors.size();
  if (count == 0) return {};
  bool used = false;
  for (LayerSpec& layer : config.layers) {
    if (static_cast<size_t>(layer.rope.rotary_dim) != 2 * count) continue;
    layer.rope.factors = factors;
    used = true;
  }
  if (!used)
    return input_error("{}: rope_freqs.weight has {} elements, expected {} (half a head)",
                       model.head().name(), count, config.layers.front().rope.rotary_dim / 2);
  return {};
}

Result<int64_t> vocabulary(const GgufModel& model, const ArchKeys& keys) {
  const GgufFile& file = model.head();
  if (const auto* embedding = model.find_tensor("token_embd.weight")) {
    if (embedding->shape.size() != 2 || embedding->shape[0] > kLargestVocab)
      return input_error("{}: token_embd.weight: expected [vocabulary, hidden], at most {} rows",
                         file.name(), kLargestVocab);
    return embedding->shape[0];
  }
  if (keys.has("vocab_size")) return keys.integer("vocab_size", 1, kLargestVocab);
  if (file.has("tokenizer.ggml.tokens"))
    return static_cast<int64_t>(RK_TRY(file.array_size("tokenizer.ggml.tokens", GgufType::string)));
  return input_error("{}: no token_embd.weight, {} or tokenizer.ggml.tokens: vocabulary unknown",
                     file.name(), keys.key("vocab_size"));
}

// The layers of `config`, all but the RoPE factors.
Status read_layers(const GgufFile& file, const ArchKeys& keys, ModelConfig& config) {
  const int64_t count = RK_TRY(keys.integer("block_count", 1, kMostLayers));
  const auto heads = RK_TRY(keys.per_layer("attention.head_count", count, kMostHeads, 0));
  const int64_t most_heads = *std::max_element(heads.begin(), heads.end());
  if (most_heads == 0)
    return input_error("{}: the metadata lacks {}", file.name(), keys.key("attention.head_count"));
  const auto kv_heads =
      keys.has("attention.head_count_kv")
          ? RK_TRY(keys.per_layer("attention.head_count_kv", count, kMostHeads, 0))
          : heads;
  const int64_t head_dim = config.hidden / most_heads;
  const int64_t k_dim = RK_TRY(keys.integer("attention.key_length", 1, kLargestHeadDim, head_dim));
  const int64_t v_dim =
      RK_TRY(keys.integer("attention.value_length", 1, kLargestHeadDim, head_dim));
  const int64_t rotary = RK_TRY(keys.integer("rope.dimension_count", 0, k_dim, k_dim));
  if (rotary % 2 != 0)
    return input_error("{}: {}: {}, expected an even number", file.name(),
                       keys.key("rope.dimension_count"), rotary);

  RopeSpec rope = RK_TRY(read_rope(file, keys, config.trained_context));
  rope.rotary_dim = static_cast<int>(rotary);
  RopeSpec sliding_rope = rope;
  const bool local_base = config.family.starts_with("gemma3") || config.family == "gemma4";
  if (local_base || config.family == "olmo2" || keys.has("rope.freq_base_swa")) {
    sliding_rope = RopeSpec{};
    sliding_rope.rotary_dim = rope.rotary_dim;
    sliding_rope.theta = RK_TRY(
        keys.number("rope.freq_base_swa", 1.0, kLargestScale, local_base ? 10000.0 : rope.theta));
  }

  const int64_t window = RK_TRY(keys.integer("attention.sliding_window", 0, kLongestContext, 0));
  std::vector<bool> sliding(static_cast<size_t>(count), false);
  if (window > 0) sliding = RK_TRY(sliding_layers(file, keys, config.family, count));
  // Hybrids (Qwen3-Next, Qwen3.5): all but every n-th layer are linear attention.
  const int64_t interval = RK_TRY(keys.integer("full_attention_interval", 0, kMostLayers, 0));

  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    LayerSpec layer;
    layer.heads = static_cast<int>(heads[at]);
    layer.kv_heads = static_cast<int>(kv_heads[at]);
    layer.k_dim = static_cast<int>(k_dim);
    layer.v_dim = static_cast<int>(v_dim);
    layer.rope = sliding[at] ? sliding_rope : rope;
    if (interval > 1 && (i + 1) % interval != 0) {
      layer.kind = LayerKind::recurrent;
      layer.note = "linear_attention";
    } else if (layer.kv_heads == 0) {  // how the format marks the layers of hybrids that keep state
      layer.kind = LayerKind::recurrent;
      layer.note = "recurrent";
    } else if (sliding[at]) {
      layer.kind = LayerKind::sliding;
      layer.window = window;
    } else if (keys.has("attention.kv_lora_rank")) {
      layer.kind = LayerKind::latent;
    }
    if (layer.kind != LayerKind::recurrent && layer.heads % layer.kv_heads != 0)
      return input_error("{}: layer {}: {} heads, expected a multiple of its {} KV heads",
                         file.name(), i, layer.heads, layer.kv_heads);
    config.layers.push_back(std::move(layer));
  }
  return {};
}

// Mixtures of experts: Qwen's and GPT-OSS. The converter writes no key for what the family implies.
Status read_experts(const GgufFile& file, const ArchKeys& keys, ModelConfig& config) {
  const std::string& arch = config.family;
  config.experts = static_cast<int>(RK_TRY(keys.integer("expert_count", 1, kMostExperts)));
  config.experts_used =
      static_cast<int>(RK_TRY(keys.integer("expert_used_count", 1, config.experts)));
  config.expert_renormalize = arch != "qwen2moe";
  RK_TRY(read_expert_gating(file, arch, config));
  for (const char* key : {"expert_group_count", "expert_shared_count"})
    if (RK_TRY(keys.integer(key, 0, kMostExperts, 0)) > 1)
      return input_error("{}: {} is not supported for {}", file.name(), keys.key(key), arch);
  if (const double scale = RK_TRY(keys.number("expert_weights_scale", 0.0, 1e6, 0.0));
      scale != 0.0 && scale != 1.0)
    return input_error("{}: {}: {} is not supported for {}", file.name(),
                       keys.key("expert_weights_scale"), scale, arch);
  const int64_t width = RK_TRY(keys.integer("expert_feed_forward_length", 0, kLargestWidth, 0));
  config.expert_hidden = width > 0 ? width : config.ffn_hidden;
  if (config.expert_hidden < 1)
    return input_error("{}: the metadata lacks {}", file.name(),
                       keys.key("expert_feed_forward_length"));
  if (arch == "qwen2moe")
    config.shared_expert_hidden =
        RK_TRY(keys.integer("expert_shared_feed_forward_length", 1, kLargestWidth));
  if (arch == "gpt-oss") {
    config.expert_bias = config.attention_sinks = true;
    config.activation = Activation::clamped_swiglu;
    config.swiglu_alpha = 1.702f;
    config.swiglu_limit = 7.0f;
  }
  for (LayerSpec& layer : config.layers) layer.experts = true;
  return {};
}

// What single architectures have beside the common keys.
Status read_family(const GgufFile& file, const ArchKeys& keys, ModelConfig& config) {
  const std::string& arch = config.family;
  if (arch == "olmo2") {
    config.qk_norm = false;
    config.qk_norm_whole = true;
  } else if (arch == "cohere2") {
    config.norm = NormKind::layer;
    config.logit_scale = static_cast<float>(RK_TRY(keys.number("logit_scale", -1e6, 1e6, 0.0)));
    if (config.logit_scale == 0.0f)
      return input_error("{}: the metadata lacks {}", file.name(), keys.key("logit_scale"));
    for (LayerSpec& layer : config.layers)
      if (layer.kind != LayerKind::sliding) layer.rope.rotary_dim = 0;
  } else if (arch == "smollm3") {  // every fourth layer; the format has no key for it
    for (size_t i = 3; i < config.layers.size(); i += 4) config.layers[i].rope.rotary_dim = 0;
  } else if (arch == "qwen3moe" || arch == "qwen2moe" || arch == "gpt-oss") {
    return read_experts(file, keys, config);
  } else if (arch == "mistral3") {
    config.query_scale_beta =
        static_cast<float>(RK_TRY(keys.number("attention.temperature_scale", 0.0, 1e6, 0.0)));
    config.query_scale_context = config.layers.front().rope.original_context;
    if (config.query_scale_beta != 0.0f && config.query_scale_context < 1)
      return input_error("{}: {} without {}", file.name(), keys.key("attention.temperature_scale"),
                         keys.key("rope.scaling.original_context_length"));
  }
  return {};
}

}  // namespace

const quant::SourceTensor* GgufModel::find_tensor(std::string_view name) const {
  for (const GgufFile& part : parts)
    if (const auto* tensor = part.find_tensor(name)) return tensor;
  return nullptr;
}

Result<ModelConfig> gguf_config(const GgufModel& model) {
  const GgufFile& file = model.head();
  const std::string arch = RK_TRY(file.text("general.architecture", ""));
  if (arch.empty()) return input_error("{}: the metadata lacks general.architecture", file.name());
  const ArchKeys keys(file, arch);
  if (!keys.has("block_count") || !keys.has("embedding_length"))
    return input_error(
        "{}: architecture \"{}\" does not describe a decoder: the metadata lacks {} (known "
        "architectures: gemma3, llama, qwen3)",
        file.name(), arch, keys.key(keys.has("block_count") ? "embedding_length" : "block_count"));

  ModelConfig config;
  config.family = arch;
  config.name = RK_TRY(file.text("general.name", ""));
  config.hidden = RK_TRY(keys.integer("embedding_length", 1, kLargestWidth));
  const int64_t count = RK_TRY(keys.integer("block_count", 1, kMostLayers));
  const auto ffn = RK_TRY(keys.per_layer("feed_forward_length", count, kLargestWidth, 0));
  config.ffn_hidden = *std::max_element(ffn.begin(), ffn.end());
  config.trained_context = RK_TRY(keys.integer("context_length", 0, kLongestContext, 0));
  const double layer_norm = RK_TRY(keys.number("attention.layer_norm_epsilon", 0.0, 1.0, 1e-6));
  config.norm_eps = static_cast<float>(
      RK_TRY(keys.number("attention.layer_norm_rms_epsilon", 0.0, 1.0, layer_norm)));
  config.vocab_size = RK_TRY(vocabulary(model, keys));
  RK_TRY(read_layers(file, keys, config));
  RK_TRY(read_long_rope(model, keys, config));
  RK_TRY(read_rope_factors(model, config));

  const bool gemma = arch.starts_with("gemma");
  config.activation = gemma ? Activation::gelu_tanh : Activation::silu;
  config.embedding_scale =
      gemma ? std::sqrt(static_cast<float>(config.hidden))
            : static_cast<float>(RK_TRY(keys.number("embedding_scale", 0.0, 1e6, 1.0)));
  const LayerSpec& first = config.layers.front();
  double query_dim = first.k_dim;
  // The 27B models of Gemma 2 and 3 alone scale by hidden / heads instead of the head's size.
  if ((arch == "gemma2" && count == 46) || (arch == "gemma3" && count == 62))
    query_dim = static_cast<double>(config.hidden / std::max(first.heads, 1));
  config.attention_scale = static_cast<float>(
      RK_TRY(keys.number("attention.scale", 0.0, 1e6, 1.0 / std::sqrt(std::max(query_dim, 1.0)))));
  const bool gemma2 = arch == "gemma2";
  config.attention_softcap = static_cast<float>(
      RK_TRY(keys.number("attn_logit_softcapping", 0.0, 1e6, gemma2 ? 50.0 : 0.0)));
  config.logit_softcap = static_cast<float>(
      RK_TRY(keys.number("final_logit_softcapping", 0.0, 1e6, gemma2 ? 30.0 : 0.0)));
  const bool tied = gemma || arch == "cohere2";
  config.tied_embeddings = model.complete ? model.find_tensor("output.weight") == nullptr : tied;
  config.qk_norm = arch == "gemma3" || arch == "qwen3" || arch == "qwen3moe" ||
                   model.find_tensor("blk.0.attn_q_norm.weight") != nullptr;
  config.attention_bias = model.find_tensor("blk.0.attn_q.bias") != nullptr;
  RK_TRY(read_family(file, keys, config));
  if (arch == "gemma4") RK_TRY(read_gguf_gemma4(model, config));
  if (arch == "gemma3n") RK_TRY(read_gguf_gemma3n(model, config));
  if (arch == "llama4") RK_TRY(read_gguf_llama4(model, config));
  // The names of Hugging Face.
  if (arch == "qwen3moe") config.family = "qwen3_moe";
  if (arch == "qwen2moe") config.family = "qwen2_moe";
  if (arch == "gpt-oss") config.family = "gpt_oss";
  return config;
}

}  // namespace ringkeep::checkpoint
