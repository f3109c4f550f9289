#include "text/merge_table.h"

namespace ringkeep::text {

Result<MergeTable> MergeTable::create(const Vocabulary& vocabulary) {
  MergeTable table;
  const auto& merges = vocabulary.data.merges;
  table.merges_.reserve(merges.size());
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
    table.merges_.insert_or_assign(key(left_id, right_id),
                                   BpeMerge{static_cast<double>(rank), id});
  }
  return table;
}

}  // namespace ringkeep::text
