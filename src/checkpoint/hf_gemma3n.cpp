// Key names, defaults and rules: transformers' configuration_gemma3n.py.
#include "checkpoint/hf_gemma3n.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "checkpoint/limits.h"

namespace ringkeep::checkpoint {

namespace {

constexpr int64_t kSparseLayers = 10;  // by default, of deeper models
constexpr double kSparsity = 0.95;     // of their gates

// An array of numbers, one for each layer, each in [least, below).
Result<std::vector<double>> per_layer(const JsonFields& text, const char* key, size_t layers,
                                      double least, double below) {
  const Json& list = *text.find(key);
  if (!list.is_array() || list.size() != layers)
    return text.wrong(key, fmt::format("an array of {} numbers, one for each layer", layers));
  std::vector<double> values;
  for (const Json& entry : list) {
    const double value = entry.is_number() ? entry.get<double>() : below;
    if (!(value >= least && value < below))
      return text.wrong(key, fmt::format("numbers from {}, below {}", least, below));
    values.push_back(value);
  }
  return values;
}

// One width for all layers has been read with the general keys.
Status read_widths(const JsonFields& text, ModelConfig& config) {
  constexpr const char* kKey = "intermediate_size";
  const Json* value = text.find(kKey);
  if (value == nullptr || !value->is_array()) return {};
  const auto widths =
      RK_TRY(per_layer(text, kKey, config.layers.size(), 1.0, static_cast<double>(kLargestWidth)));
  for (size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] != std::floor(widths[i])) return text.wrong(kKey, "integers");
    config.layers[i].ffn_hidden = static_cast<int64_t>(widths[i]);
    config.ffn_hidden = std::max(config.ffn_hidden, config.layers[i].ffn_hidden);
  }
  return {};
}

// The share of a gate's channels that is cut off in each layer; 0: the gate is dense.
Status read_sparsity(const JsonFields& text, ModelConfig& config) {
  constexpr const char* kKey = "activation_sparsity_pattern";
  const auto count = static_cast<int64_t>(config.layers.size());
  std::vector<double> shares(config.layers.size(), 0.0);
  if (text.has(kKey))
    shares = RK_TRY(per_layer(text, kKey, config.layers.size(), 0.0, 1.0));
  else if (count > kSparseLayers)
    std::fill_n(shares.begin(), kSparseLayers, kSparsity);
  for (size_t i = 0; i < shares.size(); ++i)
    if (shares[i] > 0.0)
      config.layers[i].gate_deviations = static_cast<float>(normal_quantile(shares[i]));
  return {};
}

Status read_altup(const JsonFields& text, ModelConfig& config) {
  config.altup_streams =
      static_cast<int>(RK_TRY(text.integer("altup_num_inputs", 1, kMostStreams)).value_or(4));
  config.altup_active = static_cast<int>(
      RK_TRY(text.integer("altup_active_idx", 0, config.altup_streams - 1)).value_or(0));
  // null means no bound, an absent key the default.
  constexpr const char* kClip = "altup_coef_clip";
  if (text.has(kClip) || !text.json().contains(kClip))
    config.altup_clip = static_cast<float>(RK_TRY(text.number(kClip, 1e-6, 1e6)).value_or(120.0));
  config.altup_scale_output = RK_TRY(text.boolean("altup_correct_scale")).value_or(true);
  return {};
}

}  // namespace

bool is_gemma3n(const std::string& model_type) {
  return model_type == "gemma3n" || model_type == "gemma3n_text";
}

// By halving: some sixty steps, each of which is sure.
double normal_quantile(double p) {
  double low = -40.0, high = 40.0;
  for (int step = 0; step < 100; ++step) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(-middle / std::numbers::sqrt2) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

Status read_hf_gemma3n(const JsonFields& text, ModelConfig& config) {
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  config.attention_scale = 1.0f;  // q and k are normed
  config.attention_softcap = 0.0f;
  config.qk_norm = config.v_norm = true;
  if (!text.json().contains("final_logit_softcapping")) config.logit_softcap = 30.0f;
  config.layer_embedding =
      RK_TRY(text.integer("hidden_size_per_layer_input", 1, kLargestWidth)).value_or(256);
  config.layer_vocab =
      RK_TRY(text.integer("vocab_size_per_layer_input", 1, kLargestVocab)).value_or(262144);
  config.laurel_rank = RK_TRY(text.integer("laurel_rank", 1, kLargestWidth)).value_or(64);
  RK_TRY(read_widths(text, config));
  RK_TRY(read_sparsity(text, config));
  return read_altup(text, config);
}

}  // namespace ringkeep::checkpoint
