// The Hadamard transform of a row, with the additions of the reference in the same order. Included
// once per SIMD target.
#if defined(RINGKEEP_KERNELS_CPU_HADAMARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGKEEP_KERNELS_CPU_HADAMARD_INL_H_
#undef RINGKEEP_KERNELS_CPU_HADAMARD_INL_H_
#else
#define RINGKEEP_KERNELS_CPU_HADAMARD_INL_H_
#endif

#include <cmath>

#include "hwy/highway.h"
#include "kernels/api/host_kv.h"

#if HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE
HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Up to 16 floats: rows are multiples of 16, and the partial sums of the codecs are 16.
using RowTag = hn::CappedTag<float, 16>;
using RowVec = hn::Vec<RowTag>;

// Lanes i and i + stride (a bit of the lane number) become their sum and difference.
template <int kLog2Stride>
HWY_INLINE RowVec ButterflyLanes(RowTag d, RowVec x) {
  const hn::RebindToUnsigned<RowTag> du;
  const auto sign =
      hn::ShiftLeft<31 - kLog2Stride>(hn::And(hn::Iota(du, 0), hn::Set(du, 1u << kLog2Stride)));
  RowVec swapped;
  if constexpr (kLog2Stride == 0) swapped = hn::Shuffle2301(x);
  if constexpr (kLog2Stride == 1) swapped = hn::Shuffle1032(x);
  if constexpr (kLog2Stride == 2) swapped = hn::SwapAdjacentBlocks(x);
  if constexpr (kLog2Stride == 3) swapped = hn::ConcatLowerUpper(d, x, x);
  return hn::Add(swapped, hn::Xor(x, hn::BitCast(d, sign)));
}

// x [dim], in place
HWY_INLINE void Hadamard(float* HWY_RESTRICT x, int dim) {
  const RowTag d;
  constexpr int kLanes = hn::MaxLanes(RowTag());
  const int block = hadamard_block(dim);
  for (int i = 0; i < dim; i += kLanes) {
    RowVec v = hn::LoadU(d, x + i);
    v = ButterflyLanes<0>(d, v);
    v = ButterflyLanes<1>(d, v);
    if constexpr (kLanes >= 8) v = ButterflyLanes<2>(d, v);
    if constexpr (kLanes >= 16) v = ButterflyLanes<3>(d, v);
    hn::StoreU(v, d, x + i);
  }
  int stride = kLanes;
  for (; stride * 2 < block; stride *= 4)  // two stages at a time
    for (int base = 0; base < dim; base += 4 * stride)
      for (float* p = x + base; p < x + base + stride; p += kLanes) {
        const RowVec a = hn::LoadU(d, p), b = hn::LoadU(d, p + stride);
        const RowVec c = hn::LoadU(d, p + 2 * stride), e = hn::LoadU(d, p + 3 * stride);
        const RowVec ab = hn::Add(a, b), a_b = hn::Sub(a, b), ce = hn::Add(c, e),
                     c_e = hn::Sub(c, e);
        hn::StoreU(hn::Add(ab, ce), d, p);
        hn::StoreU(hn::Add(a_b, c_e), d, p + stride);
        hn::StoreU(hn::Sub(ab, ce), d, p + 2 * stride);
        hn::StoreU(hn::Sub(a_b, c_e), d, p + 3 * stride);
      }
  if (stride < block)
    for (int base = 0; base < dim; base += 2 * stride)
      for (float* p = x + base; p < x + base + stride; p += kLanes) {
        const RowVec a = hn::LoadU(d, p), b = hn::LoadU(d, p + stride);
        hn::StoreU(hn::Add(a, b), d, p);
        hn::StoreU(hn::Sub(a, b), d, p + stride);
      }
  const RowVec norm = hn::Set(d, 1.0f / std::sqrt(static_cast<float>(block)));
  for (int i = 0; i < dim; i += kLanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), norm), d, x + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
#endif
