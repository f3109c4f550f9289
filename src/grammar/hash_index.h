// Numbers 0, 1, 2, ... by keys that are stored elsewhere; grows.
#pragma once

#include <cstdint>
#include <vector>

#include "text/flat_index.h"

namespace ringkeep::grammar {

class HashIndex {
 public:
  // The number under the hash for which `equal(number)` holds, or -1.
  template <typename Equal>
  int64_t find(uint64_t hash, const Equal& equal) const {
    return index_.find(hash, [&](int32_t number) {
      return hashes_[static_cast<size_t>(number)] == hash && equal(static_cast<uint32_t>(number));
    });
  }
  // The next number, under a hash.
  void add(uint64_t hash) {
    if (hashes_.size() == room_) {
      room_ *= 2;
      index_ = text::FlatIndex(room_);
      for (size_t i = 0; i < hashes_.size(); ++i)
        index_.insert(hashes_[i], static_cast<int32_t>(i));
    }
    index_.insert(hash, static_cast<int32_t>(hashes_.size()));
    hashes_.push_back(hash);
  }

 private:
  static constexpr size_t kFirstRoom = 64;
  size_t room_ = kFirstRoom;
  text::FlatIndex index_{kFirstRoom};
  std::vector<uint64_t> hashes_;
};

}  // namespace ringkeep::grammar
