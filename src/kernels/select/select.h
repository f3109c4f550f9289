// Chooses the kernels of a backend. Only apps, tests and bench see this room; an app picks a
// backend here and passes it down.
#pragma once

#include <string>

#include "kernels/api/ops.h"

namespace ringkeep::kernels {

Ops ref_backend();  // the scalar reference alone
Ops cpu_backend();  // Highway kernels where they support the problem, the reference elsewhere

// Which kernel each op of `ops` prefers, and the SIMD target in use: the text of --explain-kernels.
std::string explain(const Ops& ops);

}  // namespace ringkeep::kernels
