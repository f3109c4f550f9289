// The RMS norm of a row, and what q and k heads go through before attention. Sums run in kLanes
// fixed partial sums and are folded in one order, whatever the SIMD width. Included once per SIMD
// target.
#if defined(RINGKEEP_KERNELS_CPU_HEAD_TRANSFORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGKEEP_KERNELS_CPU_HEAD_TRANSFORM_INL_H_
#undef RINGKEEP_KERNELS_CPU_HEAD_TRANSFORM_INL_H_
#else
#define RINGKEEP_KERNELS_CPU_HEAD_TRANSFORM_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "hwy/highway.h"
#include "kernels/api/params.h"

HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kLanes = 16;
using D = hn::CappedTag<float, kLanes>;

// The 16 partial sums of a reduction, folded as a tree.
inline float Fold(float* partial) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) partial[i] += partial[i + half];
  return partial[0];
}

// Mean of x [n]: 16 partial sums (element i goes to sum i % 16).
inline float Mean(const float* x, int64_t n) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN float partial[kLanes] = {};
  const int64_t whole = n / kLanes * kLanes;
  for (int64_t lane = 0; lane < kLanes; lane += lanes) {
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < whole; i += kLanes) sum = hn::Add(sum, hn::LoadU(d, x + i + lane));
    hn::StoreU(sum, d, partial + lane);
  }
  for (int64_t i = whole; i < n; ++i) partial[i - whole] += x[i];
  return Fold(partial) / static_cast<float>(n);
}

// Sum of squares of x - mean [n]: 16 partial sums as above.
inline float SumOfSquares(const float* x, int64_t n, float mean) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN float partial[kLanes] = {};
  const auto vmean = hn::Set(d, mean);
  const int64_t whole = n / kLanes * kLanes;
  for (int64_t lane = 0; lane < kLanes; lane += lanes) {
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < whole; i += kLanes) {
      const auto v = hn::Sub(hn::LoadU(d, x + i + lane), vmean);
      sum = hn::MulAdd(v, v, sum);
    }
    hn::StoreU(sum, d, partial + lane);
  }
  for (int64_t i = whole; i < n; ++i) partial[i - whole] += (x[i] - mean) * (x[i] - mean);
  return Fold(partial);
}

// RMS norm of x - mean
inline void NormRow(const float* x, const float* weight, const float* residual, float* y, int64_t n,
                    float eps, float mean = 0.0f) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float scale = 1.0f / std::sqrt(SumOfSquares(x, n, mean) / static_cast<float>(n) + eps);
  const auto vscale = hn::Set(d, scale);
  const auto vmean = hn::Set(d, mean);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto v = hn::Mul(hn::Sub(hn::LoadU(d, x + i), vmean), vscale);
    if (weight != nullptr) v = hn::Mul(v, hn::LoadU(d, weight + i));
    if (residual != nullptr) v = hn::Add(hn::LoadU(d, residual + i), v);
    hn::StoreU(v, d, y + i);
  }
  for (; i < n; ++i) {
    float v = (x[i] - mean) * scale;
    if (weight != nullptr) v *= weight[i];
    y[i] = residual != nullptr ? residual[i] + v : v;
  }
}

inline void Rotate(float* x, const float* cos, const float* sin, int64_t pairs) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= pairs; i += lanes) {
    const auto a = hn::LoadU(d, x + i);
    const auto b = hn::LoadU(d, x + pairs + i);
    const auto c = hn::LoadU(d, cos + i);
    const auto s = hn::LoadU(d, sin + i);
    hn::StoreU(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), d, x + i);
    hn::StoreU(hn::Add(hn::Mul(b, c), hn::Mul(a, s)), d, x + pairs + i);
  }
  for (; i < pairs; ++i) {
    const float a = x[i];
    const float b = x[i + pairs];
    x[i] = a * cos[i] - b * sin[i];
    x[i + pairs] = b * cos[i] + a * sin[i];
  }
}

// x *= factor
inline void Scale(float* x, float factor, int64_t n) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto vfactor = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), vfactor), d, x + i);
  for (; i < n; ++i) x[i] *= factor;
}

// y = x * weight, elementwise
inline void Multiply(const float* x, const float* weight, float* y, int64_t n) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, weight + i)), d, y + i);
  for (; i < n; ++i) y[i] = x[i] * weight[i];
}

// y = transform(x), both [dim]: head `head` of row `row` of the step. y may be x.
inline void TransformHead(const HeadTransform& t, int64_t row, int64_t head, int dim,
                          const float* x, float* y) {
  const float* weight = t.weight != nullptr ? t.weight + head * t.weight_stride : nullptr;  // [dim]
  if (weight != nullptr && t.normalize)
    NormRow(x, weight, nullptr, y, dim, t.eps);
  else if (weight != nullptr)
    Multiply(x, weight, y, dim);
  else if (y != x)
    std::copy_n(x, dim, y);
  if (t.cos != nullptr) Rotate(y, t.cos + row * t.pairs, t.sin + row * t.pairs, t.pairs);
  if (t.row_scale != nullptr) Scale(y, t.row_scale[row], dim);
}

}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
