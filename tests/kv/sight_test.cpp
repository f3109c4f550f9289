// The solved visibility rule against the rule itself, and the page bound against counting.
#include "kv/sight.h"

#include <gtest/gtest.h>

#include <array>

#include "kv/naive_cache.h"

namespace ringkeep::kv::testing {
namespace {

std::vector<GroupPlan> groups() {
  std::vector<GroupPlan> all;
  for (const bool hot : {false, true})
    for (const auto& [window, keep, chunk] : {std::array<int64_t, 3>{0, 0, 0},
                                              {1, 0, 0},
                                              {64, 0, 0},
                                              {100, 0, 0},
                                              {300, 0, 0},
                                              {1, 70, 0},
                                              {80, 130, 0},
                                              {16, 0, 16},
                                              {64, 0, 64},
                                              {192, 0, 192},
                                              {100, 0, 100},
                                              {200, 0, 200}}) {
      GroupPlan group;
      group.window = window;
      group.keep = keep;
      group.chunk_size = chunk;
      group.hot = hot;
      all.push_back(group);
    }
  return all;
}

TEST(Sight, IsTheRuleOverAllRowsToCome) {
  for (const GroupPlan& group : groups())
    for (int64_t q = 0; q < 700; q += q < 140 ? 1 : 23) {
      std::vector<bool> page(12, false);
      for (int64_t k = 0; k <= q; ++k) {
        // A row to come sees k if q itself does: sight only shrinks.
        const bool seen = naive_visible(group, q, k, q);
        ASSERT_EQ(sight_of(group).sees(q, k), seen) << q << " " << k << " " << group.window;
        if (seen) page[static_cast<size_t>(k / 64)] = true;
        ASSERT_FALSE(!seen && naive_visible(group, q + 1 + k % 70, k, q + 1 + k % 70));
      }
      for (int64_t p = 0; p < q / 64; ++p)
        ASSERT_EQ(sight_of(group).sees_page(q, p), page[static_cast<size_t>(p)])
            << q << " page " << p << " window " << group.window << " hot " << group.hot;
    }
}

// Every position of a step against every rollback: never more pages than the bound, and the bounds
// of the hot tier and of chunks are reached (those that begin anywhere in a page, far on).
TEST(Sight, PageBoundHolds) {
  for (const GroupPlan& group : groups()) {
    const Sight sight = sight_of(group);
    for (const int64_t rollback : {0, 1, 63, 64, 100})
      for (const int64_t rows : {1, 2, 64, 65, 300}) {
        int64_t most = 0;
        for (int64_t length = 0; length < 900; ++length) {
          const int64_t floor = std::max<int64_t>(0, length - rollback);
          int64_t pages = 0;
          for (int64_t p = 0; p <= (length + rows - 1) / 64; ++p)
            pages += p >= length / 64 || sight.sees_page(floor, p) ? 1 : 0;
          most = std::max(most, pages);
        }
        const int64_t bound = sight.page_bound(rows, rollback, 900 + rows);
        EXPECT_LE(most, bound) << "window " << group.window << " hot " << group.hot;
        if (group.hot && group.window == 0) {
          EXPECT_EQ(most, 2 + pages_for(rows + rollback - 1));
        }
        if (!group.hot && (group.chunk_size == 16 || group.chunk_size % 64 == 0) &&
            group.chunk_size > 0) {
          EXPECT_EQ(most, bound) << group.chunk_size << " " << rollback << " " << rows;
        }
      }
  }
}

}  // namespace
}  // namespace ringkeep::kv::testing
