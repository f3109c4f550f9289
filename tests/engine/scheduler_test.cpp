#include <gtest/gtest.h>

#include <random>

#include "engine/scheduler.h"

namespace ringkeep::engine {
namespace {

TEST(Scheduler, DecodingJobsGoFirstAndPromptsFillTheRest) {
  const std::vector<Job> jobs = {{1, 1000, 512}, {2, 1, 512}, {3, 40, 512}, {4, 1, 512}};
  const auto plan = schedule(jobs, 64);
  ASSERT_EQ(plan.entries.size(), 4u);
  EXPECT_EQ(plan.entries[0].id, 2);
  EXPECT_TRUE(plan.entries[0].sample);
  EXPECT_EQ(plan.entries[1].id, 4);
  EXPECT_EQ(plan.entries[2].id, 1);
  EXPECT_EQ(plan.entries[2].rows, 31);
  EXPECT_FALSE(plan.entries[2].sample);
  EXPECT_EQ(plan.entries[3].id, 3);
  EXPECT_EQ(plan.entries[3].rows, 31);
  EXPECT_EQ(plan.rows, 64);
}

// Half of the room in order of arrival, half to the shortest; what is left over is not wasted.
TEST(Scheduler, PromptsShareTheRoom) {
  const auto rows_of = [](const std::vector<Job>& jobs, int64_t room) {
    std::vector<int64_t> rows(jobs.size());
    for (const auto& entry : schedule(jobs, room).entries)
      rows[static_cast<size_t>(entry.id)] = entry.rows;
    return rows;
  };
  using Rows = std::vector<int64_t>;
  EXPECT_EQ(rows_of({{0, 1000, 512}, {1, 900, 512}, {2, 20, 512}}, 100), (Rows{50, 30, 20}));
  EXPECT_EQ(rows_of({{0, 1000, 512}, {1, 1000, 512}}, 100), (Rows{100, 0}));
  EXPECT_EQ(rows_of({{0, 1000, 24}, {1, 1000, 512}}, 100), (Rows{24, 76}));
  EXPECT_EQ(rows_of({{0, 30, 512}, {1, 30, 512}, {2, 10, 512}, {3, 1, 512}}, 51),
            (Rows{30, 10, 10, 1}));
  EXPECT_EQ(rows_of({{0, 5, 512}, {1, 6, 512}}, 100), (Rows{5, 6}));
}

TEST(Scheduler, NeverExceedsAnyLimitAndSamplesExactlyWhenAllRowsRun) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Job> jobs;
    for (int64_t id = 0; id < static_cast<int64_t>(random() % 6); ++id)
      jobs.push_back(
          {id, 1 + static_cast<int64_t>(random() % 50), 1 + static_cast<int64_t>(random() % 20)});
    const int64_t max_rows = 1 + static_cast<int64_t>(random() % 40);
    const auto plan = schedule(jobs, max_rows);
    int64_t rows = 0;
    for (const auto& entry : plan.entries) {
      const Job& job = jobs[static_cast<size_t>(entry.id)];
      EXPECT_GE(entry.rows, 1);
      EXPECT_LE(entry.rows, std::min(job.pending, job.max_rows));
      EXPECT_EQ(entry.sample, entry.rows == job.pending);
      rows += entry.rows;
    }
    EXPECT_EQ(rows, plan.rows);
    EXPECT_LE(rows, max_rows);
    EXPECT_TRUE(jobs.empty() || rows > 0);
  }
}

}  // namespace
}  // namespace ringkeep::engine
