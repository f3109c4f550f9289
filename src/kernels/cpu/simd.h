// Everything about Highway 1.0.3 (Debian 12) that is not obvious, in one place. A kernel file
// reads:
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/cpu/linear.cpp"
//   #include "kernels/cpu/simd.h"          // sets the targets, includes foreach_target and highway
//   HWY_BEFORE_NAMESPACE();
//   RK_TARGET_ATTRIBUTES()
//   namespace ringkeep::kernels::cpu { namespace HWY_NAMESPACE { ... } }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE  ... HWY_EXPORT / HWY_DYNAMIC_DISPATCH ... #endif
//
// RK_HAS_VNNI is 1 where _mm512_dpbusd_epi32 may be used on `.raw`. The HWY_SCALAR target has
// vectors of one lane: give it a plain loop (`#if HWY_TARGET == HWY_SCALAR`).

#include "kernels/cpu/targets.h"
// After targets.h: it says which.
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

// Per target: this header is included again for each.
#undef RK_HAS_VNNI
#undef RK_TARGET_ATTRIBUTES
#if HWY_TARGET == HWY_AVX3_DL
// Highway's attribute string names avxvnni in place of avx512vnni; clang
// takes one target attribute only, so ours replaces it (HWY_AFTER_NAMESPACE pops it).
#define RK_HAS_VNNI 1
#define RK_TARGET_ATTRIBUTES() \
  HWY_POP_ATTRIBUTES           \
  HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
#define RK_HAS_VNNI 0
#define RK_TARGET_ATTRIBUTES()
#endif
#if HWY_ARCH_X86
#include <immintrin.h>
#endif
