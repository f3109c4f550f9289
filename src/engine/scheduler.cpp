#include "engine/scheduler.h"

#include <algorithm>

namespace ringkeep::engine {

StepPlan schedule(std::span<const Job> jobs, int64_t max_rows) {
  std::vector<int64_t> rows(jobs.size());
  int64_t left = max_rows;
  const auto give = [&](size_t job, int64_t& budget) {
    const int64_t more =
        std::min({jobs[job].pending - rows[job], jobs[job].max_rows - rows[job], budget});
    rows[job] += std::max<int64_t>(more, 0);
    budget -= std::max<int64_t>(more, 0);
  };
  std::vector<size_t> prompts;  // in order of arrival
  for (size_t i = 0; i < jobs.size(); ++i)
    if (jobs[i].pending == 1)
      give(i, left);
    else
      prompts.push_back(i);

  std::vector<size_t> shortest = prompts;
  std::ranges::stable_sort(shortest, {}, [&](size_t i) { return jobs[i].pending; });
  int64_t half = left - left / 2;
  left /= 2;
  for (const size_t i : prompts) give(i, half);
  left += half;
  for (const size_t i : shortest) give(i, left);

  StepPlan plan;
  const auto add = [&](size_t i) {
    if (rows[i] == 0) return;
    plan.entries.push_back({jobs[i].id, rows[i], rows[i] == jobs[i].pending});
    plan.rows += rows[i];
  };
  for (size_t i = 0; i < jobs.size(); ++i)
    if (jobs[i].pending == 1) add(i);
  for (const size_t i : prompts) add(i);
  return plan;
}

}  // namespace ringkeep::engine
