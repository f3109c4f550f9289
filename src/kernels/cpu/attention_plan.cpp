#include "kernels/cpu/attention_plan.h"

#include <algorithm>

namespace ringkeep::kernels::cpu {

namespace {
template <typename T>
std::vector<T>& emptied() {
  static thread_local std::vector<T> kept;
  kept.clear();
  return kept;
}

// Rows of a step that decodes, or checks a few drafted tokens: reading pages takes more time than
// working on them, and the running output of all heads stays in the second cache.
constexpr int64_t kNarrowRows = 128;
constexpr int64_t kTasksPerThread = 4;
}  // namespace

bool AttentionPlan::narrow(const KvSegment& segment) const {
  return segment.rows * group_ <= kBlockRows &&
         (segment.rows == 1 || segment.rows * p_.heads <= kNarrowRows);
}

// Heads of a narrow segment's blocks. A page of all heads is one stream, at whose speed memory is
// read; short contexts are shared between threads by heads as well.
int64_t AttentionPlan::heads_side_by_side(int threads) const {
  const int64_t heads = p_.geometry.kv_heads;
  if (threads == 1) return heads;
  int64_t splits = 0;
  for (int64_t s = 0; s < p_.n_segments; ++s)
    if (narrow(p_.segments[s])) splits += 1 + p_.segments[s].n_pages / kSplitPages;
  const int64_t parts =
      std::clamp<int64_t>(threads * kTasksPerThread / std::max<int64_t>(1, splits), 1, heads);
  return (heads + parts - 1) / parts;
}

AttentionPlan::AttentionPlan(const AttentionParams& p, int threads)
    : p_(p),
      group_(p.heads / p.geometry.kv_heads),
      blocks_(emptied<Block>()),
      splits_(emptied<Split>()) {
  const int32_t kv_heads = p.geometry.kv_heads;
  const int32_t together = static_cast<int32_t>(heads_side_by_side(threads));
  for (int64_t s = 0; s < p.n_segments; ++s) {
    const int64_t rows = p.segments[s].rows * group_;
    const int32_t step = narrow(p.segments[s]) ? together : 1;
    for (int32_t head = 0; head < kv_heads; head += step)
      for (int64_t first = 0; first < rows; first += kBlockRows) {
        blocks_.push_back(
            {.segment = static_cast<int32_t>(s),
             .kv_head = head,
             .kv_heads = std::min(step, kv_heads - head),
             .rows = static_cast<int32_t>(std::min<int64_t>(kBlockRows, rows - first)),
             .first = first,
             .first_query = rows_ * p.heads + head * rows + first});
        most_rows_ = std::max(most_rows_, blocks_.back().all_rows());
      }
    rows_ += p.segments[s].rows;
  }
  shared_ = threads > 1 && static_cast<int64_t>(blocks_.size()) < kTasksPerThread * threads;

  for (int64_t b = 0; b < static_cast<int64_t>(blocks_.size()); ++b) {
    Block& block = blocks_[b];
    const KvSegment& segment = p.segments[block.segment];
    block.first_split = static_cast<int64_t>(splits_.size());
    int64_t current = -1;
    for (int64_t page = 0; page < segment.n_pages; ++page) {
      const int64_t logical = segment.pages[page].logical;
      bool seen = false;  // the first and the last row see it, or one between does
      for (int r = 0; r < block.rows && !seen; ++r) seen = visible_tokens(block, r, logical) != 0;
      if (!seen) continue;
      if (logical / kSplitPages != current) {
        current = logical / kSplitPages;
        splits_.push_back(
            {.block = b, .first_page = page, .last_page = page, .first_row = split_rows_});
        if (shared_) split_rows_ += block.all_rows();
      }
      splits_.back().last_page = page + 1;
    }
    block.last_split = static_cast<int64_t>(splits_.size());
  }
}

}  // namespace ringkeep::kernels::cpu
