// How one attention call is cut into work: blocks of query rows and splits of their pages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/api/host_kv.h"
#include "kernels/api/params.h"

namespace ringkeep::kernels::cpu {

inline constexpr int kBlockRows = 32;
// Pages of a split: 256 tokens, so that two threads can share a window of 512.
inline constexpr int kSplitPages = 4;

// Cuts one block of memory into aligned arrays; with a null base it only counts.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}
  template <typename T>
  T* take(int64_t n) {
    T* at = base_ != nullptr ? reinterpret_cast<T*>(base_ + bytes_) : nullptr;
    bytes_ += (static_cast<size_t>(n) * sizeof(T) + 63) / 64 * 64;
    return at;
  }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  size_t bytes_ = 0;
};

// Rows [first, first + rows) of the (tokens x group heads) rows of one segment and KV head.
struct Block {
  int32_t segment;
  int32_t kv_head;
  int32_t rows;
  int64_t first;
  int64_t first_query;  // position of the first row among all prepared queries
  int64_t first_split = 0;
  int64_t last_split = 0;
};

// Pages [first_page, last_page) of the segment's table: those of one kSplitPages of token indices.
struct Split {
  int64_t block;
  int64_t first_page;
  int64_t last_page;
  int64_t first_row;  // of the partial sums
};

struct RowTarget {
  int64_t row;
  int head;
};

// One at a time on a thread.
class AttentionPlan {
 public:
  AttentionPlan(const AttentionParams& p, int threads);

  int64_t rows() const { return rows_; }              // of all segments
  int64_t split_rows() const { return split_rows_; }  // rows of partial sums, 0 unless shared
  bool shared() const { return shared_; }             // splits are tasks of their own
  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<Split>& splits() const { return splits_; }

  // Bit t: token page * 64 + t is visible to the block's row r.
  uint64_t visible_tokens(const Block& block, int r, int64_t page) const {
    const int64_t row = (block.first + r) / group_;
    const KvSegment& segment = p_.segments[block.segment];
    const int64_t index = segment.index0 + row;
    const int64_t end = segment.span_end != nullptr ? segment.span_end[row] : index;
    const int64_t base = page * kPageTokens;
    if (p_.chunk_size > 0) return range(index / p_.chunk_size * p_.chunk_size, index, base);
    if (p_.window <= 0) return range(0, end, base);
    const int64_t pinned = p_.keep - 1 < end ? p_.keep - 1 : end;
    return range(index - p_.window + 1, end, base) | range(0, pinned, base);
  }

  // The rows of the block that read the page from the hot tier (reads_hot()) are its first ones, in
  // the order of their token indices; how many.
  int hot_rows(const Block& block, int64_t page) const {
    if (p_.hot.storage == nullptr) return 0;
    const int64_t end = (page + 2) * kPageTokens - p_.segments[block.segment].index0;  // of tokens
    return static_cast<int>(std::clamp<int64_t>(end * group_ - block.first, 0, block.rows));
  }

  RowTarget target(const Block& block, int r) const {
    const int64_t at = block.first + r;
    return {p_.segments[block.segment].row0 + at / group_,
            block.kv_head * group_ + static_cast<int>(at % group_)};
  }

  // Preparing queries, in tasks of some rows: visit(position, row, head).
  int64_t query_tasks() const {
    return static_cast<int64_t>(blocks_.size() + kBlocksPerTask - 1) / kBlocksPerTask;
  }
  template <typename Visit>
  void for_queries(int64_t task, const Visit& visit) const {
    const int64_t n = static_cast<int64_t>(blocks_.size());
    for (int64_t b = task * kBlocksPerTask; b < n && b < (task + 1) * kBlocksPerTask; ++b)
      for (int r = 0; r < blocks_[b].rows; ++r) {
        const RowTarget to = target(blocks_[b], r);
        visit(blocks_[b].first_query + r, to.row, to.head);
      }
  }

 private:
  static constexpr int kBlocksPerTask = 2;

  // Bits of the tokens of the page at `base` within [low, high].
  static uint64_t range(int64_t low, int64_t high, int64_t base) {
    low = low > base ? low - base : 0;
    high = high - base < kPageTokens - 1 ? high - base : kPageTokens - 1;
    if (low > high) return 0;
    return (~uint64_t{0} >> (kPageTokens - 1 - (high - low))) << low;
  }

  const AttentionParams& p_;
  int group_;
  int64_t rows_ = 0;
  int64_t split_rows_ = 0;
  bool shared_ = false;
  // The calling thread's, kept from call to call: a decode step allocates nothing here.
  std::vector<Block>& blocks_;
  std::vector<Split>& splits_;
};

}  // namespace ringkeep::kernels::cpu
