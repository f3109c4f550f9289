#include "config/model_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ringkeep {

const char* layer_kind_name(LayerKind kind) {
  switch (kind) {
    case LayerKind::full: return "full";
    case LayerKind::sliding: return "sliding";
    case LayerKind::chunked: return "chunked";
    case LayerKind::shared: return "shared";
    case LayerKind::recurrent: return "recurrent";
    case LayerKind::latent: return "latent";
    case LayerKind::cacheless: return "cacheless";
  }
  return "?";
}

namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

// Llama 3.1: low frequencies are divided by `factor`, high ones kept, a linear blend between
// (wavelength measured against the original context).
double llama3_frequency(const RopeSpec& rope, double frequency) {
  const double wavelength = kTwoPi / frequency;
  const double low = rope.original_context / rope.low_freq_factor;
  const double high = rope.original_context / rope.high_freq_factor;
  if (wavelength < high) return frequency;
  if (wavelength > low || low == high) return frequency / rope.factor;  // Llama 4: no blend
  const double smooth = (rope.original_context / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - smooth) * frequency / rope.factor + smooth * frequency;
}

// YaRN (Peng et al. 2023, "NTK-by-parts"): the pair index at which a frequency turns `rotations`
// times within the original context.
double yarn_pair(const RopeSpec& rope, double rotations) {
  return rope.rotary_dim * std::log(rope.original_context / (rotations * kTwoPi)) /
         (2.0 * std::log(rope.theta));
}

}  // namespace

std::vector<float> rope_frequencies(const RopeSpec& rope) {
  const int pairs = rope.rotary_dim / 2;
  std::vector<float> result(static_cast<size_t>(pairs));
  double first = yarn_pair(rope, rope.beta_fast), last = yarn_pair(rope, rope.beta_slow);
  if (rope.truncate) first = std::floor(first), last = std::ceil(last);
  first = std::max(0.0, first);
  last = std::min(rope.rotary_dim - 1.0, last);
  for (int i = 0; i < pairs; ++i) {
    double frequency = std::pow(rope.theta, -2.0 * i / rope.rotary_dim);
    switch (rope.scaling) {
      case RopeSpec::Scaling::none:
      case RopeSpec::Scaling::longrope: break;  // its factors follow
      case RopeSpec::Scaling::linear: frequency /= rope.factor; break;
      case RopeSpec::Scaling::llama3: frequency = llama3_frequency(rope, frequency); break;
      case RopeSpec::Scaling::yarn: {
        const double span = first == last ? 0.001 : last - first;
        const double ramp = std::clamp((i - first) / span, 0.0, 1.0);
        frequency = frequency / rope.factor * ramp + frequency * (1.0 - ramp);
        break;
      }
    }
    if (!rope.factors.empty()) frequency /= rope.factors[static_cast<size_t>(i)];
    result[static_cast<size_t>(i)] = static_cast<float>(frequency);
  }
  return result;
}

void settle_long_rope(ModelConfig& config, int64_t length) {
  for (LayerSpec& layer : config.layers) {
    RopeSpec& rope = layer.rope;
    if (!rope.long_factors.empty() && length > rope.original_context)
      rope.factors = std::move(rope.long_factors);
    rope.long_factors.clear();
  }
}

}  // namespace ringkeep
