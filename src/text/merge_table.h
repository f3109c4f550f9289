// Merges by rank: two token ids to the token that they make.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/result.h"
#include "text/bpe_merge.h"
#include "text/vocabulary.h"

namespace ringkeep::text {

class MergeTable {
 public:
  // Errors (input): a half, or the whole, of a merge is no token (as Hugging Face tokenizers says).
  // Of a merge given twice the later rank counts, as there.
  static Result<MergeTable> create(const Vocabulary& vocabulary);

  BpeMerge find(int32_t left, int32_t right) const {
    if (left < 0 || right < 0) return {};
    const auto it = merges_.find(key(left, right));
    return it == merges_.end() ? BpeMerge{} : it->second;
  }

 private:
  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }
  std::unordered_map<uint64_t, BpeMerge> merges_;
};

}  // namespace ringkeep::text
