// Activations as two int8 terms.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_quantize.cpp"
#include <cmath>

#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One row; cols is a multiple of 16.
float quantize_row(const float* x, int64_t cols, int8_t* hi, int8_t* lo, float* sums) {
  const hn::CappedTag<float, 16> d;
  const hn::Rebind<int32_t, decltype(d)> di;
  const hn::Rebind<int8_t, decltype(d)> d8;
  const int64_t lanes = int64_t(hn::Lanes(d));

  // The largest magnitude by its bits, which order NaN above infinity above all numbers.
  auto bits = hn::Zero(di);
  const auto magnitude = hn::Set(di, 0x7fffffff);
  for (int64_t i = 0; i < cols; i += lanes)
    bits = hn::Max(bits, hn::And(hn::BitCast(di, hn::LoadU(d, x + i)), magnitude));
  const float max = hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, bits)));
  const bool finite = max < INFINITY;
  const bool zero = !finite || max < 0x1p-100f;

  const auto inverse = hn::Set(d, zero ? 0.0f : 127.0f / max);
  const auto limit = hn::Set(di, 127);
  for (int64_t i = 0; i < cols; i += 16) {
    auto sum = hn::Zero(di);
    for (int64_t j = i; j < i + 16; j += lanes) {
      const auto t = zero ? hn::Zero(d) : hn::Mul(hn::LoadU(d, x + j), inverse);
      const auto high = hn::NearestInt(t);
      const auto rest = hn::Mul(hn::Sub(t, hn::ConvertTo(d, high)), hn::Set(d, 256.0f));
      const auto low = hn::Max(hn::Min(hn::NearestInt(rest), limit), hn::Neg(limit));
      hn::StoreU(hn::DemoteTo(d8, high), d8, hi + j);
      hn::StoreU(hn::DemoteTo(d8, low), d8, lo + j);
      sum = hn::Add(sum, hn::Add(hn::ShiftLeft<8>(high), low));
    }
    sums[i / 16] = float(hn::GetLane(hn::SumOfLanes(di, sum)));
  }
  float* finer = sums;
  for (int64_t size = 32; size <= kMaxGroup; size *= 2) {
    float* coarser = finer + cols / (size / 2);
    for (int64_t i = 0; i < cols / size; ++i) coarser[i] = finer[2 * i] + finer[2 * i + 1];
    finer = coarser;
  }
  if (!finite) return NAN;
  return zero ? 0.0f : max / 127.0f * (1.0f / 256.0f);
}

}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringkeep::kernels::cpu {

HWY_EXPORT(quantize_row);

size_t place_quantized(QuantizedX& q, int64_t rows, int64_t cols, std::byte* memory) {
  q.rows = (rows + 15) / 16 * 16;  // whole tiles
  q.cols = cols;
  // An odd number of cache lines, lest the rows of a tile share the sets of the L1 cache.
  q.stride = ((cols + 63) / 64 | 1) * 64;
  q.sum_stride = q.sums_of(2 * kMaxGroup);
  const size_t term_bytes = size_t(q.rows * q.stride);
  const size_t sum_bytes = size_t((q.rows * q.sum_stride + 15) / 16 * 64);
  if (memory != nullptr) {
    q.hi = reinterpret_cast<int8_t*>(memory);
    q.lo = q.hi + term_bytes;
    q.sums = reinterpret_cast<float*>(memory + 2 * term_bytes);
    q.scale = reinterpret_cast<float*>(memory + 2 * term_bytes + sum_bytes);
  }
  return 2 * term_bytes + sum_bytes + size_t(q.rows) * sizeof(float);
}

void quantize_x(const float* x, int64_t x_stride, int64_t row0, int64_t n, const QuantizedX& q) {
  for (int64_t r = row0; r < row0 + n; ++r)
    q.scale[r] = HWY_DYNAMIC_DISPATCH(quantize_row)(x + r * x_stride, q.cols, q.hi + r * q.stride,
                                                    q.lo + r * q.stride, q.sums + r * q.sum_stride);
}

}  // namespace ringkeep::kernels::cpu
#endif
