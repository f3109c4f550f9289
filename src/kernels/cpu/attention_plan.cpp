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
}  // namespace

AttentionPlan::AttentionPlan(const AttentionParams& p, int threads)
    : p_(p),
      group_(p.heads / p.geometry.kv_heads),
      blocks_(emptied<Block>()),
      splits_(emptied<Split>()) {
  for (int64_t s = 0; s < p.n_segments; ++s) {
    const int64_t rows = p.segments[s].rows * group_;
    for (int head = 0; head < p.geometry.kv_heads; ++head)
      for (int64_t first = 0; first < rows; first += kBlockRows)
        blocks_.push_back(
            {.segment = static_cast<int32_t>(s),
             .kv_head = head,
             .rows = static_cast<int32_t>(std::min<int64_t>(kBlockRows, rows - first)),
             .first = first,
             .first_query = rows_ * p.heads + head * rows + first});
    rows_ += p.segments[s].rows;
  }
  shared_ = threads > 1 && static_cast<int64_t>(blocks_.size()) < 4 * threads;

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
        if (shared_) split_rows_ += block.rows;
      }
      splits_.back().last_page = page + 1;
    }
    block.last_split = static_cast<int64_t>(splits_.size());
  }
}

}  // namespace ringkeep::kernels::cpu
