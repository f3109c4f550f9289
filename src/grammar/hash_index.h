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

// Triples of numbers; emptied at no cost.
class TripleSet {
 public:
  // False where it was there already.
  bool add(uint32_t a, uint32_t b, uint32_t c) {
    if (2 * size_ >= slots_.size()) grow();
    Slot& slot = slots_[find(a, b, c)];
    if (slot.round == round_) return false;
    slot = {a, b, c, round_};
    ++size_;
    return true;
  }
  void clear() {
    size_ = 0;
    if (++round_ == 0) {
      slots_.assign(slots_.size(), Slot{});
      round_ = 1;
    }
  }

 private:
  struct Slot {
    uint32_t a = 0, b = 0, c = 0;
    uint32_t round = 0;  // of its last use; others are free
  };
  size_t find(uint32_t a, uint32_t b, uint32_t c) const {
    const uint64_t key = (uint64_t{a} << 32 | b) * 0x9e3779b97f4a7c15u + c;
    size_t i = (key ^ key >> 32) * 0xbf58476d1ce4e5b9u >> 32;
    for (;; ++i) {
      const Slot& slot = slots_[i & (slots_.size() - 1)];
      if (slot.round != round_ || (slot.a == a && slot.b == b && slot.c == c))
        return i & (slots_.size() - 1);
    }
  }
  void grow() {
    std::vector<Slot> before(2 * slots_.size());
    before.swap(slots_);
    for (const Slot& slot : before)
      if (slot.round == round_) slots_[find(slot.a, slot.b, slot.c)] = slot;
  }

  std::vector<Slot> slots_ = std::vector<Slot>(64);  // a power of two
  size_t size_ = 0;
  uint32_t round_ = 1;
};

}  // namespace ringkeep::grammar
