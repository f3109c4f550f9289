// What the rows of one group can still see, as ranges of token indices: the visibility rule of
// kernels/api/kv_types.h solved for k.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "kv/plan.h"

namespace ringkeep::kv {

constexpr int64_t pages_for(int64_t rows) {
  return (rows + kernels::kPageTokens - 1) / kernels::kPageTokens;
}

struct Sight {
  int64_t window = 0;  // 0: unbounded
  int64_t keep = 0;
  int64_t chunk_size = 0;  // > 0: chunked
  bool hot = false;        // the hot tier: of what is visible, the pages that reads_hot() names

  // Whether a sequence of that length still holds all its pages.
  bool keeps_all(int64_t length) const { return oldest(length) < kernels::kPageTokens; }
  // Rows with index >= q read nothing below it from this tier.
  int64_t hot_start(int64_t q) const {
    return hot ? std::max<int64_t>(0, q / kernels::kPageTokens - 1) * kernels::kPageTokens : 0;
  }
  // Rows with index >= q see [oldest(q), ...) and, from hot_start(q) on, the pinned [0, keep), and
  // nothing else.
  int64_t oldest(int64_t q) const {
    if (chunk_size > 0) return std::max(q / chunk_size * chunk_size, hot_start(q));
    return window > 0 ? std::max(q - window + 1, hot_start(q)) : hot_start(q);
  }
  bool sees(int64_t q, int64_t k) const {
    return k >= hot_start(q) && (k < keep || k >= oldest(q));
  }
  // Whether a row with index >= q may see a row of the page.
  bool sees_page(int64_t q, int64_t logical) const {
    const int64_t first = logical * kernels::kPageTokens;
    return first >= hot_start(q) && (first < keep || first + kernels::kPageTokens > oldest(q));
  }

  // Most pages that a sequence of at most `length` rows holds while a step of `rows` rows is open
  // and `rollback` committed rows may still be taken back. The hot tier holds those from the page
  // before the row that the rollback leads back to.
  int64_t page_bound(int64_t rows, int64_t rollback, int64_t length) const {
    int64_t bound = pages_for(length);
    const int64_t most = window - 1 + rows + rollback;  // from the oldest row in sight on
    // A window begins anywhere in a page, chunks at multiples of what their size shares with it.
    if (chunk_size > 0)
      bound = std::min(bound, pages_for(most + kernels::kPageTokens -
                                        std::gcd(chunk_size, kernels::kPageTokens)));
    else if (window > 0)
      bound = std::min(bound, pages_for(keep) + pages_for(most) + 1);
    if (hot) bound = std::min(bound, 2 + pages_for(rollback + rows - 1));
    return bound;
  }
};

inline Sight sight_of(const GroupPlan& group) {
  return {group.window, group.keep, group.chunk_size, group.hot};
}

}  // namespace ringkeep::kv
