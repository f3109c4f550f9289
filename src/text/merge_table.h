// Merges by rank: two token ids to the token that they make.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "text/bpe_merge.h"
#include "text/flat_index.h"
#include "text/vocabulary.h"

namespace ringkeep::text {

class MergeTable {
 public:
  // Errors (input): a half, or the whole, of a merge is no token (as Hugging Face tokenizers says).
  // Of a merge given twice the later rank counts, as there.
  static Result<MergeTable> create(const Vocabulary& vocabulary);

  bool empty() const { return merges_.empty(); }
  BpeMerge find(int32_t left, int32_t right) const {
    if (left < 0 || right < 0) return {};
    const int32_t at = find(key(left, right));
    return at < 0 ? BpeMerge{} : merges_[at].merge;
  }

 private:
  struct Entry {
    uint64_t key;
    BpeMerge merge;
  };
  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }
  // The finalizer of MurmurHash3: every bit of the key reaches every bit of the hash.
  static uint64_t hash(uint64_t key) {
    key = (key ^ key >> 33) * 0xFF51AFD7ED558CCDu;
    key = (key ^ key >> 33) * 0xC4CEB9FE1A85EC53u;
    return key ^ key >> 33;
  }
  int32_t find(uint64_t key) const {
    return index_.find(hash(key), [&](int32_t at) { return merges_[at].key == key; });
  }
  std::vector<Entry> merges_;
  FlatIndex index_;  // into merges_
};

}  // namespace ringkeep::text
