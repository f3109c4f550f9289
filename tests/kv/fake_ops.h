// Ops for tests of the bookkeeping: a row is 8 bytes, the first channel of K and of V. K is stored
// times a factor of the codecs, so that rows read with the codec of another group come back wrong.
#pragma once

#include <cmath>
#include <cstring>

#include "kernels/api/ops.h"

namespace ringkeep::kv::testing {

using kernels::kPageTokens;
using kernels::KvGeometry;

// A power of two, so that numbers stay exact.
inline float fake_factor(const KvGeometry& geometry) {
  const auto rank = [](int bits) { return bits == 16 ? 6 : bits == 8 ? 5 : bits - 2; };
  return std::ldexp(1.0f, rank(geometry.k.bits) * 7 + rank(geometry.v.bits));
}

inline size_t fake_page_bytes(const KvGeometry& geometry) {
  const int bits = geometry.k_dim * geometry.k.bits + geometry.v_dim * geometry.v.bits;
  return static_cast<size_t>(kPageTokens * geometry.kv_heads * (bits / 8 + 2 * 2));
}

inline std::string fake_supported(const KvGeometry& geometry) {
  return geometry.k_dim % 8 != 0 || geometry.v_dim % 8 != 0 ? "head sizes must be multiples of 8"
                                                            : "";
}

inline size_t fake_offset(int64_t slot, int64_t page_stride) {
  return static_cast<size_t>(slot / kPageTokens * page_stride + slot % kPageTokens * 8);
}

inline void fake_write(std::byte* storage, int64_t page_stride, int64_t slot, int64_t index,
                       const KvGeometry& geometry, float k, float v) {
  RK_CHECK(slot >= 0 && slot % kPageTokens == index % kPageTokens);
  const float pair[2] = {k * fake_factor(geometry), v};
  std::memcpy(storage + fake_offset(slot, page_stride), pair, 8);
}

inline void fake_append(const kernels::KvAppendParams& p, kernels::Exec&) {
  for (int64_t s = 0; s < p.n_segments; ++s)
    for (int64_t i = 0; i < p.segments[s].rows; ++i) {
      const int64_t row = p.segments[s].row0 + i, index = p.segments[s].index0 + i;
      const float k = p.k[row * p.k_stride], v = p.v[row * p.v_stride];
      if (k != k) *p.non_finite = 1;
      fake_write(p.storage, p.page_stride, p.slots[row], index, p.geometry, k, v);
      if (p.hot.storage != nullptr)
        fake_write(p.hot.storage, p.hot.page_stride, p.hot.slots[row], index, p.hot.geometry, k, v);
    }
}

inline void fake_read(const kernels::KvReadParams& p, kernels::Exec&) {
  for (int64_t i = 0; i < p.n; ++i) {
    float pair[2];
    std::memcpy(pair, p.storage + fake_offset(p.slots[i], p.page_stride), 8);
    p.k[i * p.geometry.kv_heads * p.geometry.k_dim] = pair[0] / fake_factor(p.geometry);
    p.v[i * p.geometry.kv_heads * p.geometry.v_dim] = pair[1];
  }
}

inline kernels::Ops fake_ops() {
  kernels::Ops ops;
  ops.kv_page_bytes = fake_page_bytes;
  ops.kv_supported = fake_supported;
  ops.kv_append.push_back(
      {"fake", [](const kernels::KvAppendParams&) { return true; }, fake_append});
  ops.kv_read.push_back({"fake", [](const kernels::KvReadParams&) { return true; }, fake_read});
  return ops;
}

}  // namespace ringkeep::kv::testing
