// Dense rows -> affine codes as MLX stores them (mlx.core.quantize), by plain rounding or by a
// search for the scale and bias that leave the least squared error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/weight_spec.h"

namespace ringkeep::quant {

enum class AffineMethod {
  min_max,  // mlx.core.quantize, bit for bit: the range of the group, one end of it exact
  search,   // candidates of range, each followed by least squares; never worse than min_max
};

struct AffineTarget {
  int bits = 4;                      // 2, 3, 4, 5, 6, 8
  int group = 64;                    // 32, 64, 128; divides the columns
  ScaleKind scale = ScaleKind::f16;  // one level: type of scales and biases
  AffineMethod method = AffineMethod::search;
};

// Quantizes finite rows `in` [rows, cols]. `importance` [cols] (mean squares of the inputs that the
// columns are multiplied with) weighs the error of the search, empty: all alike. Scales and biases
// are exact in the target's type, infinite where that type does not reach. Each group's result
// depends on its own values alone.
WeightRows quantize_affine(const float* in, int64_t rows, int64_t cols, const AffineTarget& target,
                           std::span<const float> importance = {});

// The codes' bytes in MLX's order: from the lowest bit of the first byte upwards. `count` * bits is
// a multiple of 8; `out` has that many bits.
void pack_mlx_codes(const uint8_t* codes, int64_t count, int bits, std::byte* out);

// Sum of (in - dequantized)^2, weighed by `importance` [cols] where given.
double squared_error(const float* in, const WeightRows& rows,
                     std::span<const float> importance = {});

}  // namespace ringkeep::quant
