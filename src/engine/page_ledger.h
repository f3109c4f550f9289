// Whether the pages of a cache suffice for what its sequences may come to need. Arithmetic over the
// plan: knows no sequence and touches no memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kv/plan.h"
#include "kv/sight.h"

namespace ringkeep::engine {

// What one sequence may come to.
struct Claim {
  int64_t length = 0;        // rows in the cache
  int64_t reserved = 0;      // rows that it may come to, >= length
  int64_t step = 1;          // rows of its largest step until then
  bool shares_tail = false;  // its next row copies a page
};

class PageLedger {
 public:
  explicit PageLedger(const kv::KvPlan& plan);

  // Whether every claim can be met, in whatever order the sequences go on. `owned` [groups]: pages
  // that sequences hold now, each counted once however many share it.
  bool fits(std::span<const Claim> claims, std::span<const int64_t> owned) const;
  // Why a sequence of that length finds no room even alone, or nothing.
  std::optional<std::string> shortage(int64_t length) const;

 private:
  struct Group {
    kv::Sight sight;
    bool before_start = false, after_start = false;
    int64_t pages = 0;  // that sequences may own
  };
  // Most pages of a group that the claim's sequence ever holds, with steps of `step` rows.
  int64_t peak(const Group& group, const Claim& claim, int64_t step) const;
  // Pages that it may still take.
  int64_t to_take(const Group& group, const Claim& claim) const;

  std::vector<Group> groups_;
  int64_t chunk_;
  int64_t step_rows_;
  int64_t rollback_;
  int64_t start_;  // --quantized-kv-start: where a sequence changes its groups
};

}  // namespace ringkeep::engine
