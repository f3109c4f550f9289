#include "text/merge_table.h"

#include <limits>

namespace ringkeep::text {

Result<MergeTable> MergeTable::create(const Vocabulary& vocabulary) {
  MergeTable table;
  const auto& merges = vocabulary.data.merges;
  if (merges.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return input_error("tokenizer: expected fewer than 2^31 merges, found {}", merges.size());
  }
  table.merges_.reserve(merges.size());
  table.index_ = FlatIndex(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const int32_t left_id = vocabulary.find(left);
    const int32_t right_id = vocabulary.find(right);
    const int32_t id = vocabulary.find(left + right);
    if (left_id < 0 || right_id < 0 || id < 0 || left.empty() || right.empty()) {
      return input_error("tokenizer: merge {} joins '{}' and '{}', but {} is no token", rank, left,
                         right,
                         left_id < 0    ? "the left half"
                         : right_id < 0 ? "the right half"
                         : id < 0       ? "the result"
                                        : "an empty half");
    }
    const uint64_t pair = key(left_id, right_id);
    const BpeMerge merge{static_cast<uint32_t>(rank), id};
    if (const int32_t at = table.find(pair); at >= 0) {
      table.merges_[at].merge = merge;
    } else {
      table.index_.insert(hash(pair), static_cast<int32_t>(table.merges_.size()));
      table.merges_.push_back({pair, merge});
    }
  }
  return table;
}

}  // namespace ringkeep::text
