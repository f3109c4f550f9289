// The Highway kernels of the host CPU, dispatched at run time. Highway stays inside this room.
#pragma once

#include "kernels/api/ops.h"

namespace ringkeep::kernels::cpu {

void add_dense_kernels(Ops& ops);
void add_altup_kernels(Ops& ops);
void add_linear_kernels(Ops& ops);
void add_grouped_linear_kernels(Ops& ops);
void add_kv_kernels(Ops& ops);
void add_attention_kernels(Ops& ops);
void add_pointwise_kernels(Ops& ops);
const char* target_name();  // the SIMD target that dispatch runs, e.g. "AVX3_DL"

}  // namespace ringkeep::kernels::cpu
