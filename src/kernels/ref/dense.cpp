// Scalar references of the small float32 ops: norms, rotary embedding, gated activations.
#include <algorithm>
#include <cmath>

#include "kernels/ref/ref.h"

namespace ringkeep::kernels::ref {
namespace {

// RMSNorm (Zhang & Sennrich 2019), of x less `mean`. The mean of squares is a float64 sum.
void norm_row(const float* x, const float* weight, const float* residual, float* y, int64_t cols,
              float eps, float mean = 0.0f) {
  double sum = 0.0;
  for (int64_t i = 0; i < cols; ++i) sum += std::pow(static_cast<double>(x[i]) - mean, 2);
  const float scale = static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(cols) + eps));
  for (int64_t i = 0; i < cols; ++i) {
    const float value = (x[i] - mean) * scale * (weight != nullptr ? weight[i] : 1.0f);
    y[i] = residual != nullptr ? residual[i] + value : value;
  }
}

void rms_norm(const RmsNormParams& p, Exec& exec) {
  exec.pool().parallel_for(p.rows, [&](int64_t r, int) {
    const float* x = p.x + r * p.x_stride;
    double sum = 0.0;
    for (int64_t i = 0; i < p.cols && p.centred; ++i) sum += x[i];
    norm_row(x, p.weight, p.residual != nullptr ? p.residual + r * p.y_stride : nullptr,
             p.y + r * p.y_stride, p.cols, p.eps,
             static_cast<float>(sum / static_cast<double>(p.cols)));
  });
}

// Angles in float64: a float32 product loses the angle of far positions.
void rope_table(const RopeTableParams& p, Exec& exec) {
  exec.pool().parallel_for(p.rows, [&](int64_t r, int) {
    for (int64_t i = 0; i < p.pairs; ++i) {
      const double angle = static_cast<double>(p.positions[r]) * p.frequencies[i];
      p.cos[r * p.pairs + i] = static_cast<float>(std::cos(angle)) * p.attention_factor;
      p.sin[r * p.pairs + i] = static_cast<float>(std::sin(angle)) * p.attention_factor;
    }
  });
}

void norm_rope(const NormRopeParams& p, Exec& exec) {
  exec.pool().parallel_for(p.rows, [&](int64_t r, int) {
    for (int h = 0; h < p.heads; ++h)
      transform_head(p.transform, r, h, p.dim,
                     p.x + r * p.x_stride + static_cast<int64_t>(h) * p.dim);
  });
}

float activate(float x, GluKind kind) {
  if (kind == GluKind::silu) return x / (1.0f + std::exp(-x));
  constexpr float kSqrt2OverPi = 0.7978845608028654f;  // GELU, tanh form (Hendrycks & Gimpel 2016)
  return 0.5f * x * (1.0f + std::tanh(kSqrt2OverPi * (x + 0.044715f * x * x * x)));
}

float clamped_swiglu(float gate, float up, float alpha, float limit) {
  gate = std::min(gate, limit);
  up = std::min(std::max(up, -limit), limit);
  return gate / (1.0f + std::exp(-alpha * gate)) * (up + 1.0f);
}

void glu(const GluParams& p, Exec& exec) {
  exec.pool().parallel_for(p.rows, [&](int64_t r, int) {
    for (int64_t i = r * p.stride; i < r * p.stride + p.cols; ++i)
      p.y[i] = p.kind == GluKind::clamped_swiglu
                   ? clamped_swiglu(p.gate[i], p.up[i], p.alpha, p.limit)
                   : activate(p.gate[i], p.kind) * p.up[i];
  });
}

void add(const AddParams& p, Exec&) {
  for (int64_t i = 0; i < p.n && p.gate == nullptr; ++i) p.y[i] = p.scale * (p.y[i] + p.x[i]);
  for (int64_t r = 0; r < p.n / p.cols && p.gate != nullptr; ++r) {
    const float share = 1.0f / (1.0f + std::exp(-p.gate[r]));
    for (int64_t i = r * p.cols; i < (r + 1) * p.cols; ++i) p.y[i] += share * p.x[i];
  }
}

void softcap(const SoftcapParams& p, Exec&) {
  for (int64_t i = 0; i < p.n; ++i) p.x[i] = p.cap * std::tanh(p.x[i] / p.cap);
}

}  // namespace

// The rotary embedding is that of RoFormer (Su et al. 2021), with half-split pairing.
void transform_head(const HeadTransform& t, int64_t row, int64_t head, int dim, float* x) {
  if (t.weight != nullptr) {
    const float* weight = t.weight + head * t.weight_stride;  // [dim]
    if (t.normalize) norm_row(x, weight, nullptr, x, dim, t.eps);
    for (int i = 0; i < dim && !t.normalize; ++i) x[i] *= weight[i];
  }
  for (int64_t i = 0; i < t.pairs && t.cos != nullptr; ++i) {
    const float cos = t.cos[row * t.pairs + i];
    const float sin = t.sin[row * t.pairs + i];
    const float a = x[i];
    const float b = x[i + t.pairs];
    x[i] = a * cos - b * sin;
    x[i + t.pairs] = b * cos + a * sin;
  }
  for (int i = 0; i < dim && t.row_scale != nullptr; ++i) x[i] *= t.row_scale[row];
}

void add_dense_kernels(Ops& ops) {
  ops.rms_norm.push_back({"ref", always, rms_norm});
  ops.rope_table.push_back({"ref", always, rope_table});
  ops.norm_rope.push_back({"ref", always, norm_rope});
  ops.glu.push_back({"ref", always, glu});
  ops.add.push_back({"ref", always, add});
  ops.softcap.push_back({"ref", always, softcap});
}

}  // namespace ringkeep::kernels::ref
