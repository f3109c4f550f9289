// A hash index of numbers 0, 1, 2, ... by keys that are stored elsewhere: open addressing in one
// array, so that a look-up costs one or two cache lines.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace ringkeep::text {

class FlatIndex {
 public:
  // Room for `count` keys, fewer than 2^31.
  explicit FlatIndex(size_t count = 0)
      : slots_(std::bit_ceil(count * 3 / 2 + 2), Slot{}), mask_(slots_.size() - 1) {}

  // The number stored under the hash for which `equal(number)` holds, or -1.
  template <typename Equal>
  int32_t find(uint64_t hash, const Equal& equal) const {
    for (size_t i = hash & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.value < 0) return -1;
      if (slot.tag == static_cast<uint32_t>(hash >> 32) && equal(slot.value)) return slot.value;
    }
  }
  // Stores `value` under the hash; the caller has seen that its key is not there.
  void insert(uint64_t hash, int32_t value) {
    size_t i = hash & mask_;
    while (slots_[i].value >= 0) i = (i + 1) & mask_;
    slots_[i] = {static_cast<uint32_t>(hash >> 32), value};
  }

 private:
  struct Slot {
    uint32_t tag = 0;    // the upper half of the hash
    int32_t value = -1;  // -1: empty
  };
  std::vector<Slot> slots_;
  size_t mask_;
};

}  // namespace ringkeep::text
