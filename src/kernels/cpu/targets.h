// The SIMD targets that kernels are built for; included before Highway.
#pragma once

// AVX3_DL is off unless asked for. SSSE3 adds compile time for machines that are gone. Kernels need
// vectors of a known width: machines with SVE run NEON.
#define HWY_WANT_AVX3_DL 1
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
