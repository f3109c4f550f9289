#include "engine/scheduler.h"

#include <algorithm>

namespace ringkeep::engine {

StepPlan schedule(std::span<const Job> jobs, int64_t max_rows) {
  StepPlan plan;
  const auto add = [&](const Job& job) {
    const int64_t rows = std::min({job.pending, job.max_rows, max_rows - plan.rows});
    if (rows <= 0) return;
    plan.entries.push_back({job.id, rows, rows == job.pending});
    plan.rows += rows;
  };
  for (const Job& job : jobs)
    if (job.pending == 1) add(job);
  for (const Job& job : jobs)
    if (job.pending > 1) add(job);
  return plan;
}

}  // namespace ringkeep::engine
