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

// Rows [first, first + rows) of the (tokens x group heads) rows of one segment, for each of some KV
// heads. Their pages are visited head after head, as they lie in memory.
struct Block {
  int32_t segment;
  int32_t kv_head;  // the first
  int32_t kv_heads;
  int32_t rows;  // of each head
  int64_t first;
  int64_t first_query;  // position of the first row among all prepared queries
  int64_t first_split = 0;
  int64_t last_split = 0;

  int all_rows() const { return kv_heads * rows; }
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

  int64_t queries() const { return rows_ * p_.heads; }  // of all segments
  int64_t split_rows() const { return split_rows_; }    // rows of partial sums, 0 unless shared
  int most_rows() const { return most_rows_; }          // of a block
  bool shared() const { return shared_; }               // splits are tasks of their own
  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<Split>& splits() const { return splits_; }

  // Bit t: token page * 64 + t is visible to row r of each of the block's heads.
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

  // The rows of a head that read the page from the hot tier (reads_hot()) are its first ones, in
  // the order of their token indices; how many.
  int hot_rows(const Block& block, int64_t page) const {
    if (p_.hot.storage == nullptr) return 0;
    const int64_t end = (page + 2) * kPageTokens - p_.segments[block.segment].index0;  // of tokens
    return static_cast<int>(std::clamp<int64_t>(end * group_ - block.first, 0, block.rows));
  }

  // Of row r among those of all heads.
  RowTarget target(const Block& block, int r) const {
    return target(p_.segments[block.segment], block.kv_head + r / block.rows,
                  block.first + r % block.rows);
  }

  // Preparing queries, in tasks of some: visit(position, target).
  int64_t query_tasks() const { return (queries() + kQueriesPerTask - 1) / kQueriesPerTask; }
  template <typename Visit>
  void for_queries(int64_t task, const Visit& visit) const {
    const int64_t last = std::min(queries(), (task + 1) * kQueriesPerTask);
    int64_t begin = 0;  // of the segment's
    const KvSegment* segment = p_.segments;
    for (int64_t at = task * kQueriesPerTask; at < last; ++at) {
      for (; at >= begin + segment->rows * p_.heads; ++segment) begin += segment->rows * p_.heads;
      const int64_t rows = segment->rows * group_;
      const int64_t kv_head = (at - begin) / rows;
      visit(at, target(*segment, kv_head, at - begin - kv_head * rows));
    }
  }

 private:
  static constexpr int64_t kQueriesPerTask = 16;

  // row: of the (tokens x group heads) rows of the KV head.
  RowTarget target(const KvSegment& segment, int64_t kv_head, int64_t row) const {
    return {segment.row0 + row / group_, static_cast<int>(kv_head * group_ + row % group_)};
  }
  bool narrow(const KvSegment& segment) const;
  int64_t heads_side_by_side(int threads) const;

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
  int most_rows_ = 0;
  bool shared_ = false;
  // The calling thread's, kept from call to call: a decode step allocates nothing here.
  std::vector<Block>& blocks_;
  std::vector<Split>& splits_;
};

}  // namespace ringkeep::kernels::cpu
