// Rows of one layer between the store's pages and host memory, in the canonical layout of
// kernels/api/kv_rows.h.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernels/api/ops.h"
#include "kv/store.h"

namespace ringkeep::engine {

// Half-open ranges of token indices, ascending.
using RowRanges = std::vector<std::pair<int64_t, int64_t>>;
RowRanges ranges_of(std::span<const int64_t> indices);
std::string describe(const RowRanges& ranges);  // "0-39, 100-159" or "none"

// What part of a layer's rows a group holds: "rows", "hot" (its newest pages a second time), or
// "start" (f16 before --quantized-kv-start).
const char* tier_name(const kv::GroupPlan& group);

// One field of a plane: host memory [kv_heads, rows, row_bytes], or nothing.
struct HostField {
  const std::byte* data = nullptr;
  size_t bytes = 0;
};
struct HostPlane {
  HostField codes, scales, biases;
};
struct HostRows {
  HostPlane k, v;
};

struct CacheAccess {
  kv::Store& store;
  const kernels::Ops& ops;
  kernels::Exec& exec;

  // The rows of a layer in one of its groups, all fields one after the other: K codes, scales,
  // biases, V codes, scales, biases. Errors (runtime): no memory.
  Result<std::vector<std::byte>> read(kv::SequenceId sequence, int group, int layer,
                                      std::span<const int64_t> indices);
  // Writes rows whose fields have the sizes that read() gives.
  Status write(kv::SequenceId sequence, int group, int layer, std::span<const int64_t> indices,
               const HostRows& rows);
};

}  // namespace ringkeep::engine
