// Frequencies of the RoPE scaling kinds, against the formulas' defining properties.
#include <gtest/gtest.h>

#include <cmath>

#include "config/model_config.h"

namespace ringkeep {
namespace {

TEST(Rope, PlainAndLinear) {
  RopeSpec rope{.rotary_dim = 64, .theta = 10000.0};
  const auto plain = rope_frequencies(rope);
  EXPECT_FLOAT_EQ(plain[0], 1.0f);
  EXPECT_FLOAT_EQ(plain[16], 0.01f);
  rope.scaling = RopeSpec::Scaling::linear;
  rope.factor = 8.0;
  const auto linear = rope_frequencies(rope);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_FLOAT_EQ(linear[i], plain[i] / 8);
  rope.factors.assign(32, 4.0f);
  EXPECT_FLOAT_EQ(rope_frequencies(rope)[3], plain[3] / 32);
}

// High frequencies stay, low ones are divided by the factor, the blend between is monotonous.
void expect_by_parts(const RopeSpec& rope, double low_wavelength, double high_wavelength) {
  RopeSpec unscaled = rope;
  unscaled.scaling = RopeSpec::Scaling::none;
  const auto plain = rope_frequencies(unscaled);
  const auto scaled = rope_frequencies(rope);
  for (size_t i = 0; i < plain.size(); ++i) {
    const double wavelength = 2 * M_PI / plain[i];
    if (wavelength < high_wavelength) {
      EXPECT_FLOAT_EQ(scaled[i], plain[i]) << i;
    }
    if (wavelength > low_wavelength) {
      EXPECT_NEAR(scaled[i] / plain[i], 1 / rope.factor, 1e-6) << i;
    }
    if (i > 0) {
      EXPECT_LT(scaled[i], scaled[i - 1]);
    }
  }
}

TEST(Rope, Llama3KeepsHighFrequencies) {
  RopeSpec rope{.rotary_dim = 128,
                .theta = 500000.0,
                .scaling = RopeSpec::Scaling::llama3,
                .factor = 8.0,
                .original_context = 8192,
                .low_freq_factor = 1.0,
                .high_freq_factor = 4.0};
  expect_by_parts(rope, 8192, 2048);
}

// As Llama 4 Scout has it: each frequency is either kept or divided.
TEST(Rope, Llama3WithoutABlend) {
  RopeSpec rope{.rotary_dim = 128,
                .theta = 500000.0,
                .scaling = RopeSpec::Scaling::llama3,
                .factor = 16.0,
                .original_context = 8192,
                .low_freq_factor = 1.0,
                .high_freq_factor = 1.0};
  expect_by_parts(rope, 8192, 8192);
}

TEST(Rope, YarnKeepsPairsThatTurnOften) {
  RopeSpec rope{.rotary_dim = 128,
                .theta = 10000.0,
                .scaling = RopeSpec::Scaling::yarn,
                .factor = 4.0,
                .original_context = 4096,
                .beta_fast = 32.0,
                .beta_slow = 1.0};
  // One pair of slack: the bounds are rounded outwards to whole pairs.
  const double step = std::pow(10000.0, 2.0 / 128);
  expect_by_parts(rope, 4096.0 / 1.0 * step * step, 4096.0 / 32.0 / step / step);
}

TEST(Rope, LongFactorsBeyondTheOriginalContext) {
  ModelConfig config;
  config.layers.resize(2);
  config.layers[0].rope = {.rotary_dim = 4,
                           .scaling = RopeSpec::Scaling::longrope,
                           .original_context = 100,
                           .factors = {1.0f, 2.0f},
                           .long_factors = {4.0f, 8.0f}};
  config.layers[1].rope = {.rotary_dim = 4, .factors = {3.0f, 3.0f}};
  for (const int64_t length : {100, 101}) {
    ModelConfig settled = config;
    settle_long_rope(settled, length);
    const bool beyond = length > 100;
    const std::vector<float> chosen = beyond ? std::vector{4.0f, 8.0f} : std::vector{1.0f, 2.0f};
    EXPECT_EQ(settled.layers[0].rope.factors, chosen);
    EXPECT_TRUE(settled.layers[0].rope.long_factors.empty());
    EXPECT_EQ(settled.layers[1].rope, config.layers[1].rope);
    EXPECT_FLOAT_EQ(rope_frequencies(settled.layers[0].rope)[1], beyond ? 0.01f / 8 : 0.01f / 2);
  }
}

}  // namespace
}  // namespace ringkeep
