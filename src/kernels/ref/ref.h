// The scalar reference of every op. Always built; the documentation of each op.
#pragma once

#include "kernels/api/ops.h"

namespace ringkeep::kernels::ref {

// x [dim], in place: head `head` of row `row` of the step.
void transform_head(const HeadTransform& t, int64_t row, int64_t head, int dim, float* x);

void add_dense_kernels(Ops& ops);   // rms_norm, rope_table, norm_rope, glu, add, softcap
void add_linear_kernels(Ops& ops);  // linear, embed
void add_altup_kernels(Ops& ops);   // gaussian_topk, match_rms, altup_predict, altup_correct
void add_expert_kernels(Ops& ops);  // route, grouped_linear, combine
void add_kv_kernels(Ops& ops);      // kv_append, kv_read
void add_attention_kernels(Ops& ops);

}  // namespace ringkeep::kernels::ref
