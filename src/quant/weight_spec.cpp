#include "quant/weight_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/dtype.h"

namespace ringkeep::quant {
namespace {

const char* scale_name(ScaleKind scale) {
  switch (scale) {
    case ScaleKind::f16: return "f16 scales";
    case ScaleKind::bf16: return "bf16 scales";
    case ScaleKind::f32: return "f32 scales";
    case ScaleKind::two_level: return "two-level scales";
  }
  return "?";
}

float round_to_f16(float value) {
  constexpr float kMax = 65504.0f;
  return f16_to_float(float_to_f16(std::clamp(value, -kMax, kMax)));
}

}  // namespace

std::string describe(const WeightSpec& spec) {
  switch (spec.kind) {
    case WeightKind::dense_f32: return "f32";
    case WeightKind::dense_f16: return "f16";
    case WeightKind::dense_bf16: return "bf16";
    case WeightKind::symmetric:
    case WeightKind::affine:
      return fmt::format("{}-bit {}, groups of {}, {}", spec.bits,
                         spec.codes == CodeKind::e2m1         ? "e2m1"
                         : spec.kind == WeightKind::symmetric ? "symmetric"
                                                              : "affine",
                         spec.group, scale_name(spec.scale));
  }
  return "?";
}

void dequantize(const WeightRows& rows, float* out) {
  const WeightSpec& spec = rows.spec;
  if (spec.dense()) {
    std::copy(rows.dense.begin(), rows.dense.end(), out);
    return;
  }
  const bool two_level = spec.scale == ScaleKind::two_level;
  const bool affine = spec.kind == WeightKind::affine;
  const int64_t groups = rows.cols / spec.group;
  const int64_t supers = rows.cols / kSuperCols;
  for (int64_t r = 0; r < rows.rows; ++r) {
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t at = r * groups + g;
      const int64_t super = r * supers + g * spec.group / kSuperCols;
      // Products of an f16 and an 8-bit integer are exact in float.
      const float scale =
          two_level ? rows.supers[super] * float(rows.sub_scales[at]) : rows.scales[at];
      const float bias = !affine     ? 0.0f
                         : two_level ? -(rows.super_mins[super] * float(rows.sub_mins[at]))
                                     : rows.biases[at];
      const int64_t begin = r * rows.cols + g * spec.group;
      for (int64_t i = begin; i < begin + spec.group; ++i) {
        const int code = spec.codes == CodeKind::e2m1 ? kE2m1Levels[rows.codes[i]] : rows.codes[i];
        out[i] = affine ? scale * float(code) + bias : scale * float(code - spec.zero);
      }
    }
  }
}

WeightRows quantize_rows(const float* in, int64_t rows, int64_t cols, int bits, int group) {
  RK_CHECK(cols % group == 0, "{} columns in groups of {}", cols, group);
  WeightRows out;
  out.spec = {WeightKind::affine, bits, group, 0, ScaleKind::f16};
  out.rows = rows;
  out.cols = cols;
  const int64_t groups = rows * (cols / group);
  out.codes.resize(size_t(rows * cols));
  out.scales.resize(size_t(groups));
  out.biases.resize(size_t(groups));
  const float levels = float((1 << bits) - 1);
  for (int64_t g = 0; g < groups; ++g) {
    const float* x = in + g * group;
    const auto [low, high] = std::minmax_element(x, x + group);
    // Codes are chosen against the scale and bias as stored, not as computed.
    const float bias = round_to_f16(*low);
    const float scale = round_to_f16((*high - *low) / levels);
    const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    out.scales[g] = scale;
    out.biases[g] = bias;
    for (int i = 0; i < group; ++i) {
      const float code = std::nearbyint((x[i] - bias) * inverse);
      out.codes[g * group + i] = uint8_t(std::clamp(code, 0.0f, levels));
    }
  }
  return out;
}

}  // namespace ringkeep::quant
