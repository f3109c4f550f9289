// The one packed weight format. A matrix [rows, cols] (rows = outputs) is stored as unsigned codes
// in groups along cols, or dense. Every quantized source maps to it without loss:
//   symmetric:  w = scale * (q - zero)       Q4_0 (zero 8), Q5_0 (16), Q8_0 (128), Q6_K (32), Q3_K
//   (4) affine:     w = scale * q + bias         Q4_1, Q5_1, MLX affine; K-quants with biases
// A 4-bit code may stand for a level of a table instead of itself: e2m1, the 4-bit floats of MXFP4
// (OCP Microscaling Formats 1.0) doubled, 12 added: w = scale * (level[q] - 12).
// Scales come in one level (f16, bf16, f32 per group), or in two (K-quants): per group an integer
// sub-scale, per `kSuperCols` columns an f16 super-scale; scale = super * sub and, for affine,
// bias = -super_min * sub_min.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ringkeep::quant {

enum class WeightKind : uint8_t { dense_f32, dense_f16, dense_bf16, symmetric, affine };
enum class ScaleKind : uint8_t { f16, bf16, f32, two_level };

enum class CodeKind : uint8_t { linear, e2m1 };

// 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, doubled, plus 12.
inline constexpr uint8_t kE2m1Levels[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                            12, 11, 10, 9,  8,  6,  4,  0};
inline constexpr int kE2m1Zero = 12;

inline constexpr int kSuperCols = 256;  // columns under one super-scale (two_level)

struct WeightSpec {
  WeightKind kind = WeightKind::dense_f32;
  int bits = 0;   // 2, 3, 4, 5, 6, 8; 0 when dense
  int group = 0;  // 16, 32, 64, 128; 0 when dense
  int zero = 0;   // symmetric: the code (or level) that means 0, 2^(bits-1) when linear
  ScaleKind scale = ScaleKind::f16;
  CodeKind codes = CodeKind::linear;
  bool operator==(const WeightSpec&) const = default;
  bool dense() const { return kind <= WeightKind::dense_bf16; }
};
std::string describe(const WeightSpec& spec);  // "5-bit symmetric, groups of 32, f16 scales"

// A few rows of a matrix in logical form, decoded from a source and ready to be packed.
// Only the vectors that the spec needs are filled; n_groups = cols / group.
struct WeightRows {
  WeightSpec spec;
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<uint8_t> codes;      // [rows, cols]
  std::vector<float> scales;       // [rows, n_groups]   one level; exact in spec.scale's type
  std::vector<float> biases;       // [rows, n_groups]   one level, affine
  std::vector<int8_t> sub_scales;  // [rows, n_groups]   two_level
  std::vector<uint8_t> sub_mins;   // [rows, n_groups]   two_level, affine
  std::vector<float> supers;       // [rows, cols / 256] two_level; exact in f16
  std::vector<float> super_mins;   // [rows, cols / 256] two_level, affine
  std::vector<float> dense;        // [rows, cols]       dense kinds
};

// The meaning of a WeightRows as floats: out [rows, cols].
void dequantize(const WeightRows& rows, float* out);

// Quantizes dense rows in `in` [rows, cols] to affine min/max groups (f16 scale and bias).
// cols must be a multiple of group.
WeightRows quantize_rows(const float* in, int64_t rows, int64_t cols, int bits, int group);

}  // namespace ringkeep::quant
