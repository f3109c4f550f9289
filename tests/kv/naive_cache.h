// The oracle of the store: every sequence is a list of rows that never forgets, and what a query
// row sees is the visibility rule applied to the whole list.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kv/plan.h"

namespace ringkeep::kv::testing {

struct NaiveSequence {
  std::vector<float> rows;  // the number written for each token index
  int64_t step_rows = 0;    // at the end of `rows`, not committed
  int64_t floor = 0;        // the longest committed length so far, less the margin
  bool coded = false;

  int64_t length() const { return static_cast<int64_t>(rows.size()) - step_rows; }

  void commit(const KvPlan& plan, int64_t keep_rows) {
    rows.resize(static_cast<size_t>(length() + keep_rows));
    step_rows = 0;
    floor = std::max(floor, length() - plan.rollback);
    if (plan.quantized_start > 0 && plan.quantized_start < plan.max_length() &&
        length() == plan.quantized_start) {
      coded = true;
      floor = length();
    }
  }
  void rollback(int64_t n) { rows.resize(rows.size() - static_cast<size_t>(n)); }
};

inline bool naive_visible(const GroupPlan& group, int64_t q, int64_t k, int64_t span_end) {
  return group.chunk_size > 0 ? kernels::visible_chunked(q, k, group.chunk_size)
                              : kernels::visible(q, k, group.window, group.keep, span_end);
}

// Whether rows of the sequence live in the group: f16 before --quantized-kv-start, codes after it.
inline bool naive_lives_in(const KvPlan& plan, const NaiveSequence& sequence, int group) {
  for (const LayerPlan& layer : plan.layers) {
    if (layer.f16_group == group) return !sequence.coded;
    if (layer.group == group && layer.f16_group >= 0) return sequence.coded;
  }
  return true;
}

}  // namespace ringkeep::kv::testing
