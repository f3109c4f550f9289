// The cache side of an attention block: the rows of a step go into the pages of a layer, and its
// queries attend to what the layer then holds.
#pragma once

#include "kernels/api/ops.h"
#include "kv/store.h"

namespace ringkeep::models {

// Rows are those of the step. A layer that shares a donor's cache writes nothing: k and v are
// unused.
struct CachedAttention {
  int layer = 0;
  int heads = 0;
  const float* q = nullptr;  // [rows, heads, k_dim], after RoPE
  const float* k = nullptr;  // [rows, kv_heads, k_dim], before k_transform
  const float* v = nullptr;  // [rows, kv_heads, v_dim]
  kernels::HeadTransform k_transform;
  float* out = nullptr;  // [rows, heads, v_dim]
  float scale = 1.0f;
  float softcap = 0.0f;
  const float* sinks = nullptr;   // [heads] or null
  int32_t* non_finite = nullptr;  // set to 1 when a row of k or v holds NaN or infinity
};

void cached_attention(const CachedAttention& p, const kv::KvBatch& batch, const kv::Store& store,
                      const kernels::Ops& ops, kernels::Exec& exec);

// The first half alone, for layers that own a cache: k and v, which every layer takes.
void append_rows(const CachedAttention& p, const kv::KvBatch& batch, const kv::Store& store,
                 const kernels::Ops& ops, kernels::Exec& exec);

}  // namespace ringkeep::models
