#include "quant/affine.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "quant/affine_group.h"

namespace ringkeep::quant {
namespace {

// One group as mlx.core.quantize does it: the end of the range with the larger magnitude is met
// exactly, zero too, and codes are chosen before scale and bias are rounded.
void quantize_min_max(const float* x, const AffineTarget& target, uint8_t* codes, float& scale,
                      float& bias) {
  const AffinePair pair = min_max_pair(x, target.group, target.bits);
  const float levels = float((1 << target.bits) - 1);
  for (int i = 0; i < target.group; ++i) {
    const float code = std::nearbyint((x[i] - pair.bias) / pair.scale);
    codes[i] = uint8_t(std::clamp(code, 0.0f, levels));
  }
  scale = round_to(pair.scale, target.scale);
  bias = round_to(pair.bias, target.scale);
}

}  // namespace

WeightRows quantize_affine(const float* in, int64_t rows, int64_t cols, const AffineTarget& target,
                           std::span<const float> importance) {
  RK_CHECK(cols % target.group == 0, "{} columns in groups of {}", cols, target.group);
  RK_CHECK(importance.empty() || int64_t(importance.size()) == cols);
  RK_CHECK(target.group <= kLargestGroup && target.scale != ScaleKind::two_level);
  WeightRows out;
  out.spec = {WeightKind::affine, target.bits, target.group, 0, target.scale};
  out.rows = rows;
  out.cols = cols;
  const int64_t groups = cols / target.group;
  out.codes.resize(size_t(rows * cols));
  out.scales.resize(size_t(rows * groups));
  out.biases.resize(size_t(rows * groups));
  AffineSearch search(target);
  for (int64_t g = 0; g < rows * groups; ++g) {
    const float* x = in + g * target.group;
    uint8_t* codes = out.codes.data() + g * target.group;
    if (target.method == AffineMethod::min_max) {
      quantize_min_max(x, target, codes, out.scales[g], out.biases[g]);
      continue;
    }
    const AffinePair pair = search.best(
        x, importance.empty() ? nullptr : importance.data() + g % groups * target.group, codes);
    out.scales[g] = pair.scale;
    out.biases[g] = pair.bias;
  }
  return out;
}

void pack_mlx_codes(const uint8_t* codes, int64_t count, int bits, std::byte* out) {
  RK_CHECK(count * bits % 8 == 0);
  uint32_t window = 0;  // bits not yet written
  int have = 0;
  for (int64_t i = 0; i < count; ++i) {
    window |= uint32_t(codes[i]) << have;
    for (have += bits; have >= 8; have -= 8) {
      *out++ = std::byte(window & 0xff);
      window >>= 8;
    }
  }
}

double squared_error(const float* in, const WeightRows& rows, std::span<const float> importance) {
  std::vector<float> values(size_t(rows.rows * rows.cols));
  dequantize(rows, values.data());
  double sum = 0.0;
  for (int64_t r = 0; r < rows.rows; ++r)
    for (int64_t c = 0; c < rows.cols; ++c) {
      const double error = double(in[r * rows.cols + c]) - values[size_t(r * rows.cols + c)];
      sum += error * error * (importance.empty() ? 1.0 : importance[size_t(c)]);
    }
  return sum;
}

}  // namespace ringkeep::quant
