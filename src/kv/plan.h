// From a model's layers and the user's flags to a cache with exact bytes, or all the refusals,
// before any model call and without weights.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/cache_flags.h"
#include "config/model_config.h"
#include "kernels/api/ops.h"
#include "kv/caps.h"

namespace ringkeep::kv {

// Token indices are below this: positions and page numbers are 32-bit in the kernels.
inline constexpr int64_t kMaxIndices = (int64_t{1} << 31) - 64;

struct Refusal {
  int layer = -1;       // -1: the whole cache
  std::string cache;    // class name
  std::string feature;  // "quantize", "max-kv-size", "head size", ...
  std::string reason;
};

// One layer's cache. `group` is the storage group that holds it (a shared layer: the donor's).
struct LayerPlan {
  int index = 0;
  LayerKind kind = LayerKind::full;
  CacheClass cache = CacheClass::full;
  int64_t window = 0;      // tokens in sight; 0: unbounded; chunked: chunk_size
  int64_t keep = 0;        // pinned first tokens
  int64_t chunk_size = 0;  // chunked layers
  int donor = -1;
  kernels::KvGeometry geometry;  // with the codecs of rows at and after --quantized-kv-start
  size_t bytes_per_token = 0;    // of `group`: page bytes / 64, rounded up; 0: none of its own
  int64_t max_tokens = 0;        // most token slots of one sequence while decoding
  size_t max_bytes = 0;          // of one sequence, in all its groups
  int group = -1;
  int f16_group = -1;  // where rows live before --quantized-kv-start; -1: not used
  int hot_group = -1;  // where the newest pages of `group` live a second time; -1: no hot tier
};

// Layers of one geometry and visibility: one page table a sequence, storage [layer][page].
struct GroupPlan {
  kernels::KvGeometry geometry;
  int64_t window = 0;
  int64_t keep = 0;
  int64_t chunk_size = 0;
  bool before_start = false;    // the f16 group of sequences shorter than --quantized-kv-start
  bool after_start = false;     // of sequences that have passed it
  bool hot = false;             // the hot tier of another group of the same layers (--kv-hot)
  std::vector<int> layers;      // model layer indices, in storage order (shared ones excluded)
  size_t page_bytes = 0;        // of one layer
  int64_t pages_decode = 0;     // bound of one sequence while decoding
  int64_t pages_prefill = 0;    // further pages that exist only while prefilling
  int64_t pages_total = 0;      // that sequences may own, all together
  int64_t pages_snapshots = 0;  // further pages that snapshots may come to hold
};

struct KvPlan {
  std::vector<LayerPlan> layers;
  std::vector<GroupPlan> groups;
  std::vector<Refusal> refusals;
  int64_t ctx = 0;
  int64_t max_kv_size = 0;
  int64_t chunk = 0;
  int64_t rollback = 0;
  int64_t quantized_start = 0;  // 0 also when nothing is quantized
  int parallel = 1;
  size_t kv_memory = 0;           // --kv-memory; 0: every sequence may come to its bound
  int64_t pool_tokens = 0;        // that full layers hold in all; 0: there is no such layer
  size_t kv_bytes = 0;            // all sequences, while decoding
  size_t kv_prefill_bytes = 0;    // further bytes that exist only while prefilling
  size_t prefix_cache_bytes = 0;  // further bytes that snapshots may hold
  size_t budget = 0;              // --kv-budget; 0: none
  std::string budget_codec;       // what it chose, as --kv-bits takes it; empty: nothing
  std::vector<std::string> warnings;
  std::vector<std::string> notes;  // about the model, not the flags
  bool runnable() const { return refusals.empty(); }
  // Rows that a sequence may hold: ctx, or with --max-kv-size as many as an index can count.
  int64_t max_length() const { return max_kv_size > 0 ? kMaxIndices : ctx; }
  // Most rows of a step, all sequences together.
  int64_t step_rows() const { return std::max<int64_t>(chunk, parallel); }
  // Whether a sequence ever passes --quantized-kv-start, and so moves to the quantized groups.
  bool crosses_start() const { return quantized_start > 0 && quantized_start < max_length(); }
};

// Errors (usage): flags that mean nothing (an unknown codec, a negative size, N <= K is a refusal).
// Everything about layers comes back as refusals, all of them.
Result<KvPlan> make_plan(const ModelConfig& config, const CacheFlags& flags,
                         const kernels::Ops& ops);

// The refusals as an error of kind `refused`, one line a layer.
Error refusal_error(const KvPlan& plan);

// The layer table and totals for a terminal.
std::string format_plan(const KvPlan& plan);

}  // namespace ringkeep::kv
