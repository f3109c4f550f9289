// Which rows run in the next step. Bookkeeping only: touches no tensor, needs no model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ringkeep::engine {

// A running generation as the scheduler sees it.
struct Job {
  int64_t id = 0;
  int64_t pending = 0;   // tokens known and not yet in the cache, >= 1; 1 while decoding
  int64_t max_rows = 0;  // most rows that its cache takes in one step
};

struct StepPlan {
  struct Entry {
    int64_t id = 0;
    int64_t rows = 0;
    bool sample = false;  // the last row's logits choose the next token
  };
  std::vector<Entry> entries;
  int64_t rows = 0;
};

// Rows for at most `max_rows`, jobs in order of arrival. First one row for each decoding job, so
// that a long prompt does not stall running replies. Then prompts: half of the room in order of
// arrival, so that each of them comes to its end; the other half to those with the fewest rows
// left, so that a short prompt does not wait for a long one. What one half leaves over the other
// takes.
StepPlan schedule(std::span<const Job> jobs, int64_t max_rows);

}  // namespace ringkeep::engine
