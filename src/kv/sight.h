// What the rows of one group can still see, as ranges of token indices: the visibility rule of
// kernels/api/kv_types.h solved for k.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/api/kv_types.h"

namespace ringkeep::kv {

constexpr int64_t pages_for(int64_t rows) {
  return (rows + kernels::kPageTokens - 1) / kernels::kPageTokens;
}

struct Sight {
  int64_t window = 0;  // 0: unbounded
  int64_t keep = 0;
  int64_t chunk_size = 0;  // > 0: chunked

  // Rows with index >= q see [oldest(q), ...) and the pinned [0, keep), and nothing else.
  int64_t oldest(int64_t q) const {
    if (chunk_size > 0) return q / chunk_size * chunk_size;
    return window > 0 ? std::max<int64_t>(0, q - window + 1) : 0;
  }
  bool sees(int64_t q, int64_t k) const { return k < keep || k >= oldest(q); }
  // Whether a row with index >= q may see a row of the page.
  bool sees_page(int64_t q, int64_t logical) const {
    const int64_t first = logical * kernels::kPageTokens;
    return first < keep || first + kernels::kPageTokens > oldest(q);
  }

  // Most pages that a sequence of at most `length` rows holds while a step of `rows` rows is open
  // and `rollback` committed rows may still be taken back.
  int64_t page_bound(int64_t rows, int64_t rollback, int64_t length) const {
    const int64_t all = pages_for(length);
    if (window <= 0) return all;
    return std::min(all, pages_for(keep) + pages_for(window - 1 + rows + rollback) + 1);
  }
};

}  // namespace ringkeep::kv
