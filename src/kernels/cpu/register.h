// For the last lines of a kernel file: rows of the op tables that run a function of the SIMD target
// chosen at run time.
#pragma once

#include "kernels/api/ops.h"

namespace ringkeep::kernels::cpu {

// Whether this machine has vectors of a known width, which all but the smallest kernels ask for.
bool vectors_available();

template <typename Params>
bool fixed_vectors(const Params&) {
  return vectors_available();
}

// `run` of a row, for a function (params, exec) named in HWY_EXPORT before.
#define RK_RUN(FUNCTION) \
  [](const auto& params, Exec& exec) { HWY_DYNAMIC_DISPATCH(FUNCTION)(params, exec); }

}  // namespace ringkeep::kernels::cpu
