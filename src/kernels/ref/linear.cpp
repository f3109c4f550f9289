// Products of activations with packed weights, and embedding look-up.
//
// Packed weights, not exact. A row of x is written as x ~ s * (hi + lo / 256), hi and lo in
// [-127, 127]: int8 operands with the precision of about 16 bits. For each output, groups of the
// weight row in ascending order:
//   dot = sum over the group of (q - zero) * (256 * hi + lo)     exact in int32
//   sum = sum over the group of 256 * hi + lo                    affine kinds
//   acc = fma(scale, float(dot), acc), then acc = fma(bias, float(sum), acc)
// and y = acc * (s / 256) (+ output bias). The integers are exact, so an implementation may form
// them in any order; the float operations have the one order above. |dot| <= 128 * 255 * 32639 <
// 2^31.
//
// Rows of prompts (LinearParams::fine_rows), packed weights, not exact: a step for every 32
// columns, x ~ step * (hi + lo / 256) with step = max / 127; lo is 0 but where step^2 is more than
// 4 times the row's mean of it. The columns under a step, in ascending order; they lie in one group
// or in two of 16 columns:
//   dot = sum over those in a group of (q - zero) * (256 * hi + lo)     exact in int32
//   part = scale * (float(dot) / 256), and of a second group part = fma(its scale, ..., part)
//   acc = fma(step, part, acc)
//   acc = fma(bias, sum, acc) for every group             affine kinds
// where sum = step * (float(sum of 16 columns of 256 * hi + lo) / 256), of 32 columns that of the
// first and that of the second half, and y = acc (+ output bias). Divisions by 256 are exact.
//
// Dense weights, and `exact`: y = sum over ascending k of fma(w[k], x[k], y), in float.
#include <bit>
#include <cmath>
#include <vector>

#include "kernels/api/host_weights.h"
#include "kernels/ref/ref.h"

namespace ringkeep::kernels::ref {
namespace {

struct QuantizedRow {
  std::vector<int32_t> terms;  // [k] 256 * hi + lo
  float scale = 0.0f;          // of a term
};

// A row that holds infinity or NaN makes all its outputs NaN. A row of magnitudes under 2^-100 is
// 0.
QuantizedRow quantize(const float* x, int64_t k) {
  QuantizedRow row;
  row.terms.assign(size_t(k), 0);
  uint32_t max_bits = 0;
  for (int64_t i = 0; i < k; ++i)
    max_bits = std::max(max_bits, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  const float max = std::bit_cast<float>(max_bits);
  if (!(max < INFINITY)) {
    row.scale = NAN;
    return row;
  }
  if (max < 0x1p-100f) return row;
  row.scale = max / 127.0f * (1.0f / 256.0f);
  const float inverse = 127.0f / max;
  for (int64_t i = 0; i < k; ++i) {
    const float t = x[i] * inverse;
    const float hi = std::nearbyint(t);
    const float lo = std::min(std::max(std::nearbyint((t - hi) * 256.0f), -127.0f), 127.0f);
    row.terms[size_t(i)] = 256 * int32_t(hi) + int32_t(lo);
  }
  return row;
}

struct CoarseRow {
  static constexpr int64_t kRun = 32;  // columns under one step
  std::vector<int32_t> terms;          // [k] 256 * hi + lo
  std::vector<float> steps;            // [ceil(k / 32)]
  bool finite = true;
};

CoarseRow quantize_coarse(const float* x, int64_t k) {
  CoarseRow row;
  row.terms.assign(size_t(k), 0);
  row.steps.assign(size_t((k + CoarseRow::kRun - 1) / CoarseRow::kRun), 0.0f);
  float squares = 0.0f;
  for (int64_t run = 0; run < int64_t(row.steps.size()); ++run) {
    float max = 0.0f;
    for (int64_t i = run * CoarseRow::kRun; i < std::min(k, (run + 1) * CoarseRow::kRun); ++i) {
      row.finite = row.finite && std::isfinite(x[i]);
      max = std::max(max, std::abs(x[i]));
    }
    const float step = max < 0x1p-100f ? 0.0f : max / 127.0f;
    row.steps[size_t(run)] = step;
    squares += step * step;
  }
  if (!row.finite) return row;
  const float most = 4.0f * squares / float(row.steps.size());
  for (int64_t i = 0; i < k; ++i) {
    const float step = row.steps[size_t(i / CoarseRow::kRun)];
    if (step == 0.0f) continue;
    const auto rounded = [](float t) {
      return std::min(std::max(std::nearbyint(t), -127.0f), 127.0f);
    };
    const float t = x[i] * (1.0f / step);
    const float hi = rounded(t);
    const float lo = step * step > most ? rounded((t - hi) * 256.0f) : 0.0f;
    row.terms[size_t(i)] = 256 * int32_t(hi) + int32_t(lo);
  }
  return row;
}

void coarse_output(const LinearOutput& out, const CoarseRow& x, float* y) {
  const PackedTensor& w = *out.weight;
  const HostLayout layout = host_layout(w.spec, w.cols);
  const bool affine = w.spec.kind == quant::WeightKind::affine;
  constexpr float kUnit = 1.0f / 256.0f;
  HostGroup group;
  for (int64_t n0 = 0; n0 < w.rows; n0 += kRowBlock) {
    const HostBlock block = host_block(w, layout, n0 / kRowBlock);
    float acc[kRowBlock] = {};
    for (int64_t run = 0; run < w.cols; run += CoarseRow::kRun) {
      const int64_t end = std::min(w.cols, run + CoarseRow::kRun);
      const int64_t width = std::min<int64_t>(w.spec.group, end - run);
      const float step = x.steps[size_t(run / CoarseRow::kRun)];
      float part[kRowBlock] = {};
      float biased[kRowBlock][2] = {};
      float sums[2] = {};
      for (int64_t first = run; first < end; first += width) {
        unpack_group(w.spec, layout, block, first / w.spec.group, group);
        const int which = int((first - run) / width);
        for (int64_t half = first; half < first + width; half += 16) {
          int32_t terms = 0;
          for (int64_t i = half; i < half + 16; ++i) terms += x.terms[size_t(i)];
          sums[which] += step * (float(terms) * kUnit);
        }
        for (int r = 0; r < kRowBlock; ++r) {
          int32_t dot = 0;
          for (int64_t i = first; i < first + width; ++i) {
            const int64_t c = i % w.spec.group;
            dot += (int32_t(group.codes[c / 4][r][c % 4]) - (affine ? 0 : w.spec.zero)) *
                   x.terms[size_t(i)];
          }
          const float value = float(dot) * kUnit;
          part[r] = which == 0 ? group.scale[r] * value : std::fma(group.scale[r], value, part[r]);
          biased[r][which] = group.bias[r];
        }
      }
      for (int r = 0; r < kRowBlock; ++r) {
        acc[r] = std::fma(step, part[r], acc[r]);
        for (int which = 0; affine && which < (end - run) / width; ++which)
          acc[r] = std::fma(biased[r][which], sums[which], acc[r]);
      }
    }
    for (int64_t n = n0; n < std::min(n0 + kRowBlock, w.rows); ++n)
      y[n] = (x.finite ? acc[n - n0] : NAN) + (out.bias != nullptr ? out.bias[n] : 0.0f);
  }
}

void packed_output(const LinearOutput& out, const QuantizedRow& x, float* y) {
  const PackedTensor& w = *out.weight;
  const HostLayout layout = host_layout(w.spec, w.cols);
  HostGroup group;
  for (int64_t n0 = 0; n0 < w.rows; n0 += kRowBlock) {
    const HostBlock block = host_block(w, layout, n0 / kRowBlock);
    float acc[kRowBlock] = {};
    for (int64_t g = 0; g < layout.groups; ++g) {
      unpack_group(w.spec, layout, block, g, group);
      const int32_t* terms = x.terms.data() + g * w.spec.group;
      int32_t sum = 0;
      for (int i = 0; i < w.spec.group; ++i) sum += terms[i];
      for (int r = 0; r < kRowBlock; ++r) {
        int32_t dot = 0;
        for (int i = 0; i < w.spec.group; ++i)
          dot += (int32_t(group.codes[i / 4][r][i % 4]) - w.spec.zero) * terms[i];
        acc[r] = std::fma(group.scale[r], float(dot), acc[r]);
        if (w.spec.kind == quant::WeightKind::affine)
          acc[r] = std::fma(group.bias[r], float(sum), acc[r]);
      }
    }
    for (int64_t n = n0; n < std::min(n0 + kRowBlock, w.rows); ++n)
      y[n] = acc[n - n0] * x.scale + (out.bias != nullptr ? out.bias[n] : 0.0f);
  }
}

void float_output(const LinearOutput& out, const float* x, float* y, std::vector<float>& weights) {
  const PackedTensor& w = *out.weight;
  weights.resize(size_t(w.cols));
  for (int64_t n = 0; n < w.rows; ++n) {
    unpack_row(w, n, weights.data());
    float acc = 0.0f;
    for (int64_t i = 0; i < w.cols; ++i) acc = std::fma(weights[size_t(i)], x[i], acc);
    y[n] = acc + (out.bias != nullptr ? out.bias[n] : 0.0f);
  }
}

void linear(const LinearParams& p, Exec& exec) {
  exec.pool().parallel_for(p.rows, [&](int64_t row, int) {
    const float* x = p.x + row * p.x_stride;
    const int64_t k = p.outputs[0].weight->cols;
    const bool coarse = row >= p.fine_rows;
    const QuantizedRow quantized = coarse ? QuantizedRow() : quantize(x, k);
    const CoarseRow rounded = coarse ? quantize_coarse(x, k) : CoarseRow();
    std::vector<float> weights;
    for (int o = 0; o < p.n_outputs; ++o) {
      const LinearOutput& out = p.outputs[o];
      float* y = out.y + row * out.y_stride;
      if (p.exact || out.weight->spec.dense())
        float_output(out, x, y, weights);
      else if (coarse)
        coarse_output(out, rounded, y);
      else
        packed_output(out, quantized, y);
    }
  });
}

void embed(const EmbedParams& p, Exec& exec) {
  const int64_t cols = p.table->cols;
  exec.pool().parallel_for(p.rows, [&](int64_t row, int) {
    float* out = p.out + row * cols;
    unpack_row(*p.table, p.tokens[row], out);
    for (int64_t i = 0; i < cols; ++i) out[i] *= p.scale;
  });
}

}  // namespace

void add_linear_kernels(Ops& ops) {
  ops.linear.push_back({"ref", [](const LinearParams&) { return true; }, linear});
  ops.embed.push_back({"ref", [](const EmbedParams&) { return true; }, embed});
}

}  // namespace ringkeep::kernels::ref
