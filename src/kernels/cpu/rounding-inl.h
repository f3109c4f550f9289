// Floats to small whole numbers, without the care of Highway's conversions for large ones. Included
// once per SIMD target.
#if defined(RINGKEEP_KERNELS_CPU_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGKEEP_KERNELS_CPU_ROUNDING_INL_H_
#undef RINGKEEP_KERNELS_CPU_ROUNDING_INL_H_
#else
#define RINGKEEP_KERNELS_CPU_ROUNDING_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

#if HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE
HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x + kToInteger, |x| < 2^22, is x rounded to the nearest whole number (ties to even), which is
// what its low bits hold in two's complement; minus kToInteger it is that number as a float.
constexpr float kToInteger = 12582912.0f;  // 1.5 * 2^23

// The lowest bytes of the lanes.
template <typename V>
HWY_INLINE void StoreLowBytes(V v, uint8_t* p) {
  const hn::DFromV<V> d;
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  // Highway 1.0.3's TruncateTo permutes words instead of bytes on AVX3_DL.
  static_assert(hn::MaxLanes(d) == 16);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_castps_si512(v.raw)));
#else
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  hn::StoreU(hn::TruncateTo(d8, hn::BitCast(du, v)), d8, p);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
#endif
