// A hash index of numbers 0, 1, 2, ... by keys that are stored elsewhere: open addressing in one
// array of 32-bit slots, so that a look-up costs one or two cache lines. A slot holds the number
// and, in the bits that numbers leave, the upper ones of the hash.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace ringkeep::text {

class FlatIndex {
 public:
  // Room for `count` keys, fewer than 2^31, with numbers below `count`.
  explicit FlatIndex(size_t count = 0)
      : slots_(std::bit_ceil(count * 3 / 2 + 2), kEmpty),
        mask_(slots_.size() - 1),
        bits_(std::bit_width(count)) {}

  // The number stored under the hash for which `equal(number)` holds, or -1.
  template <typename Equal>
  int32_t find(uint64_t hash, const Equal& equal) const {
    for (size_t i = hash & mask_; slots_[i] != kEmpty; i = (i + 1) & mask_) {
      const auto value = static_cast<int32_t>((slots_[i] & ((uint32_t{1} << bits_) - 1)) - 1);
      if (slots_[i] >> bits_ == tag(hash) && equal(value)) return value;
    }
    return -1;
  }
  // Stores `value` under the hash; the caller has seen that its key is not there.
  void insert(uint64_t hash, int32_t value) {
    size_t i = hash & mask_;
    while (slots_[i] != kEmpty) i = (i + 1) & mask_;
    slots_[i] = tag(hash) << bits_ | (static_cast<uint32_t>(value) + 1);
  }

 private:
  static constexpr uint32_t kEmpty = 0;

  uint32_t tag(uint64_t hash) const { return static_cast<uint32_t>(hash >> (32 + bits_)); }

  std::vector<uint32_t> slots_;  // the number + 1 in the lowest bits_
  size_t mask_;
  int bits_;
};

}  // namespace ringkeep::text
