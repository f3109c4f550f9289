// The merge loop of byte-pair encoding: the best adjacent pair first, the leftmost among equals,
// O(n log n) by a priority queue that skips entries whose symbols have changed since.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ringkeep::text {

struct BpeSymbol {
  uint32_t offset = 0;  // first byte in the text
  uint32_t size = 0;    // bytes; 0 once the symbol went into its left neighbour
  int32_t id = -1;      // token, or -1 when the text is no token
  int32_t prev = -1, next = -1;
};

// What a pair becomes. Smaller keys merge first.
struct BpeMerge {
  uint32_t key = 0;
  int32_t id = -1;  // -1: the pair does not merge
};

class BpeMerger {
 public:
  void clear() { symbols_.clear(); }
  // Appends a symbol right of the last one.
  void add(uint32_t offset, uint32_t size, int32_t id) {
    const auto index = static_cast<int32_t>(symbols_.size());
    if (index > 0) symbols_.back().next = index;
    symbols_.push_back({offset, size, id, index - 1, -1});
  }

  // `rule(left, right)` gives the BpeMerge of two adjacent symbols; `merged(left, right, id)` is
  // called just before they become one.
  template <typename Rule, typename Merged>
  void run(const Rule& rule, const Merged& merged) {
    heap_.clear();
    for (size_t i = 1; i < symbols_.size(); ++i) {
      propose(rule, static_cast<int32_t>(i) - 1);
    }
    std::make_heap(heap_.begin(), heap_.end());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      const Pair pair = heap_.back();
      heap_.pop_back();
      const auto at = static_cast<int32_t>(pair.order & 0xFFFFFFFFu);
      BpeSymbol& left = symbols_[at];
      if (left.size == 0 || left.next < 0) continue;
      BpeSymbol& right = symbols_[left.next];
      if (left.size + right.size != pair.size) continue;  // a symbol only ever grows
      merged(left, right, pair.id);
      left.size = pair.size;
      left.id = pair.id;
      left.next = right.next;
      right.size = 0;
      if (left.next >= 0) symbols_[left.next].prev = at;
      for (const int32_t changed : {left.prev, at}) {
        if (changed >= 0 && propose(rule, changed)) std::push_heap(heap_.begin(), heap_.end());
      }
    }
  }

  // The symbols that are left, in order.
  template <typename Use>
  void for_each(const Use& use) const {
    if (symbols_.empty()) return;
    for (int32_t i = 0; i >= 0; i = symbols_[i].next) use(symbols_[i]);
  }

 private:
  struct Pair {
    uint64_t order;  // key, then the index of the left symbol
    uint32_t size;   // bytes of both symbols when it was proposed
    int32_t id;
    // "Less" is "later": the heap's top is the next pair to merge.
    bool operator<(const Pair& other) const { return order > other.order; }
  };

  // Appends the pair of `left` and its right neighbour to the heap's array, if they merge.
  template <typename Rule>
  bool propose(const Rule& rule, int32_t left) {
    const BpeSymbol& symbol = symbols_[left];
    if (symbol.next < 0) return false;
    const BpeSymbol& right = symbols_[symbol.next];
    const BpeMerge merge = rule(symbol, right);
    if (merge.id < 0) return false;
    heap_.push_back({uint64_t{merge.key} << 32 | static_cast<uint32_t>(left),
                     symbol.size + right.size, merge.id});
    return true;
  }

  std::vector<BpeSymbol> symbols_;
  std::vector<Pair> heap_;
};

}  // namespace ringkeep::text
