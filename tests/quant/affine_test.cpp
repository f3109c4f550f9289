// Rounding against mlx.core.quantize, and what the search for scales promises.
#include "quant/affine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "base/dtype.h"
#include "quant/affine_group.h"
#include "quant/source_tensor.h"

namespace ringkeep::quant {
namespace {

constexpr int kWidths[] = {2, 3, 4, 5, 6, 8};
constexpr int kGroups[] = {32, 64, 128};
constexpr ScaleKind kScales[] = {ScaleKind::f16, ScaleKind::bf16, ScaleKind::f32};

std::vector<std::byte> next_bytes(std::ifstream& file) {
  std::string line;
  std::getline(file, line);
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < line.size(); i += 2)
    bytes.push_back(std::byte(std::stoi(line.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<float> floats(const std::vector<std::byte>& bytes, ScaleKind kind) {
  std::vector<float> out(bytes.size() / (kind == ScaleKind::f32 ? 4 : 2));
  for (size_t i = 0; i < out.size(); ++i) {
    if (kind == ScaleKind::f32) {
      std::memcpy(&out[i], bytes.data() + 4 * i, 4);
      continue;
    }
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    out[i] = kind == ScaleKind::f16 ? f16_to_float(bits) : bf16_to_float(bits);
  }
  return out;
}

TEST(MinMax, IsMlxBitForBit) {
  std::ifstream file(RK_SOURCE_DIR "/tests/golden/quant/quantize.txt");
  std::string line;
  std::getline(file, line);  // the version
  const std::vector<float> row = floats(next_bytes(file), ScaleKind::f32);
  ASSERT_EQ(row.size(), 256u);
  int cases = 0;
  while (std::getline(file, line)) {
    SCOPED_TRACE(line);
    std::istringstream header(line);
    std::string type;
    AffineTarget target{.method = AffineMethod::min_max};
    header >> type >> target.bits >> target.group;
    target.scale = type == "float16"    ? ScaleKind::f16
                   : type == "bfloat16" ? ScaleKind::bf16
                                        : ScaleKind::f32;
    const auto words = next_bytes(file);
    const auto scales = floats(next_bytes(file), target.scale);
    const auto biases = floats(next_bytes(file), target.scale);
    const WeightRows rows = quantize_affine(row.data(), 1, 256, target);
    std::vector<std::byte> packed(256 * size_t(target.bits) / 8);
    pack_mlx_codes(rows.codes.data(), 256, target.bits, packed.data());
    EXPECT_EQ(packed, words);
    EXPECT_EQ(rows.scales, scales);
    EXPECT_EQ(rows.biases, biases);
    ++cases;
  }
  EXPECT_EQ(cases, 54);
}

TEST(Packing, IsWhatTheLoaderReads) {
  std::mt19937 random(7);
  for (const int bits : kWidths) {
    std::vector<uint8_t> codes(512);
    for (auto& code : codes) code = uint8_t(random() & ((1u << bits) - 1));
    std::vector<std::byte> packed(512 * size_t(bits) / 8);
    pack_mlx_codes(codes.data(), 512, bits, packed.data());
    const std::vector<float> ones(512 / 32, 1.0f);
    SourceTensor tensor{.name = "t", .type = SourceType::mlx_affine, .shape = {2, 256}};
    tensor.data = packed.data();
    tensor.bytes = packed.size();
    tensor.bits = bits;
    tensor.group = 32;
    tensor.scales = tensor.biases = reinterpret_cast<const std::byte*>(ones.data());
    tensor.scale_type = SourceType::f32;
    EXPECT_EQ(decode_rows(tensor, 0, 2).codes, codes);
  }
}

// Rows of groups of many kinds: normal, heavy tails, one sign, far from zero, a few values, tiny.
std::vector<float> assorted(int rows, int cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(size_t(rows * cols));
  for (int r = 0; r < rows; ++r) {
    const float size = std::exp2(float(int(random() % 20)) - 12.0f);
    for (int c = 0; c < cols; ++c) {
      float x = normal(random);
      switch (r % 7) {
        case 1: x = x * x * x; break;
        case 2: x = std::fabs(x); break;
        case 3: x = 20.0f + x; break;
        case 4: x = float(int(random() % 3)) - 1.0f; break;
        case 5: x = c % 32 == 5 ? 40.0f : 0.1f * x; break;
        case 6: x = -5.0f; break;
        default: break;
      }
      out[size_t(r * cols + c)] = size * x;
    }
  }
  return out;
}

std::vector<float> random_importance(int cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out;
  for (int c = 0; c < cols; ++c)
    out.push_back(c % 11 == 0 ? 0.0f : std::exp(2.0f * normal(random)));
  return out;
}

double error_of(const std::vector<float>& in, int cols, AffineTarget target, AffineMethod method,
                std::span<const float> importance, std::span<const float> judge) {
  target.method = method;
  const int64_t rows = int64_t(in.size()) / cols;
  return squared_error(in.data(), quantize_affine(in.data(), rows, cols, target, importance),
                       judge);
}

TEST(Search, IsNeverWorseThanMinMaxInAnyGroup) {
  for (const int bits : kWidths)
    for (const int group : kGroups)
      for (const ScaleKind scale : kScales) {
        const auto in = assorted(70, group, unsigned(bits * group));
        const auto importance = random_importance(group, 3);
        for (int64_t r = 0; r < 70; ++r) {
          const std::vector<float> row(in.begin() + r * group, in.begin() + (r + 1) * group);
          const AffineTarget target{bits, group, scale};
          for (const std::span<const float> weigh :
               {std::span<const float>(), std::span(importance)}) {
            const double plain = error_of(row, group, target, AffineMethod::min_max, {}, weigh);
            const double found = error_of(row, group, target, AffineMethod::search, weigh, weigh);
            EXPECT_LE(found, plain) << bits << " bits, group " << group << ", row " << r;
          }
        }
      }
}

// Of normal weights, as those of trained models nearly are.
TEST(Search, TakesAwayAGoodPartOfTheError) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> in(64 * 256);
  for (float& x : in) x = 0.02f * normal(random);
  const auto kept = [&](int bits, ScaleKind scale) {
    const AffineTarget target{bits, 64, scale};
    return error_of(in, 256, target, AffineMethod::search, {}, {}) /
           error_of(in, 256, target, AffineMethod::min_max, {}, {});
  };
  EXPECT_LT(kept(2, ScaleKind::f16), 0.7);
  EXPECT_LT(kept(3, ScaleKind::f16), 0.8);
  EXPECT_LT(kept(4, ScaleKind::f16), 0.9);
  EXPECT_LT(kept(6, ScaleKind::f16), 0.97);
  EXPECT_LT(kept(8, ScaleKind::bf16), 0.97);
}

// Every pair on a fine grid around the group's range, in float32: the least error that there is.
double best_on_grid(const float* x, int group, int bits) {
  const auto [low, high] = std::minmax_element(x, x + group);
  const double width = double(*high) - *low;
  const double levels = (1 << bits) - 1;
  double best = INFINITY;
  for (int a = -10; a <= 60; ++a)
    for (int b = -10; b <= 60; ++b) {
      const double from = *low + width * a / 160.0;
      const double scale = (*high - width * b / 160.0 - from) / levels;
      double error = 0.0;
      for (int i = 0; i < group; ++i) {
        const double q = std::clamp(std::nearbyint((x[i] - from) / scale), 0.0, levels);
        error += std::pow(x[i] - (from + scale * q), 2);
      }
      best = std::min(best, error);
    }
  return best;
}

TEST(Search, IsCloseToTheBestPairThereIs) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  for (const int bits : {2, 3, 4}) {
    double found = 0.0, best = 0.0;
    for (int g = 0; g < 60; ++g) {
      std::vector<float> x(32);
      for (float& value : x) value = g % 3 == 0 ? std::pow(normal(random), 3.0f) : normal(random);
      found += error_of(x, 32, {bits, 32, ScaleKind::f32}, AffineMethod::search, {}, {});
      best += best_on_grid(x.data(), 32, bits);
    }
    EXPECT_LT(found, 1.06 * best) << bits << " bits";
  }
}

TEST(Search, ImportanceGoesWhereItIsAskedTo) {
  const auto in = assorted(49, 128, 11);
  const auto importance = random_importance(128, 4);
  for (const int bits : {2, 3, 4}) {
    const AffineTarget target{bits, 64, ScaleKind::f16};
    const double plain = error_of(in, 128, target, AffineMethod::search, {}, importance);
    const double weighed = error_of(in, 128, target, AffineMethod::search, importance, importance);
    EXPECT_LT(weighed, 0.9 * plain) << bits << " bits";
  }
}

TEST(Search, ScalesAreExactInTheirType) {
  const auto in = assorted(14, 128, 12);
  for (const ScaleKind scale : kScales) {
    const auto rows = quantize_affine(in.data(), 14, 128, {3, 32, scale});
    for (const auto* values : {&rows.scales, &rows.biases})
      for (const float value : *values) EXPECT_EQ(value, round_to(value, scale));
    EXPECT_LE(*std::max_element(rows.codes.begin(), rows.codes.end()), 7);
  }
}

TEST(Search, WhatTheTypeDoesNotHoldIsInfinite) {
  std::vector<float> in(32, 1e6f);
  in[3] = -1e6f;
  for (const auto method : {AffineMethod::min_max, AffineMethod::search}) {
    const auto rows = quantize_affine(in.data(), 1, 32, {4, 32, ScaleKind::f16, method});
    EXPECT_TRUE(std::isinf(rows.biases[0]));
    const auto wide = quantize_affine(in.data(), 1, 32, {4, 32, ScaleKind::bf16, method});
    EXPECT_LT(squared_error(in.data(), wide), 1e-2 * 32e12);
  }
}

}  // namespace
}  // namespace ringkeep::quant
