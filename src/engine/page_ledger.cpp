#include "engine/page_ledger.h"

#include <algorithm>

namespace ringkeep::engine {

using kv::pages_for;

PageLedger::PageLedger(const kv::KvPlan& plan)
    : chunk_(plan.chunk),
      step_rows_(plan.step_rows()),
      rollback_(plan.rollback),
      start_(plan.quantized_start) {
  for (const kv::GroupPlan& group : plan.groups)
    groups_.push_back(
        {kv::sight_of(group), group.before_start, group.after_start, group.pages_total});
}

int64_t PageLedger::peak(const Group& group, const Claim& claim, int64_t step) const {
  int64_t most = claim.reserved;
  if (group.before_start) {
    if (claim.length >= start_) return 0;
    most = std::min(most, start_);
  }
  if (group.after_start && most < start_) return 0;
  return group.sight.page_bound(std::clamp<int64_t>(step, 1, chunk_), rollback_, most);
}

int64_t PageLedger::to_take(const Group& group, const Claim& claim) const {
  const int64_t most = peak(group, claim, claim.step);
  // A ring's old pages are let go, but whoever shares them goes on holding them.
  if (!group.sight.keeps_all(claim.reserved)) return most;
  if (group.after_start && claim.length < start_) return most;  // holds none yet
  return std::max<int64_t>(0, most - pages_for(claim.length)) + (claim.shares_tail ? 1 : 0);
}

// Two bounds for each group, of which the lesser holds. Without regard to sharing: the sum of what
// each may hold, where the rows of a step are dealt out but once. With it: what is held now and
// what each may take, as if nothing were ever given back.
bool PageLedger::fits(std::span<const Claim> claims, std::span<const int64_t> owned) const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    int64_t held = 0, decoding = 0, taken = owned[g];
    int64_t prefills = 0;
    for (const Claim& claim : claims) {
      held += peak(group, claim, claim.step);
      decoding += peak(group, claim, 1);
      taken += to_take(group, claim);
      prefills += claim.step > 1 ? 1 : 0;
    }
    if (prefills > 0) decoding += prefills + pages_for(step_rows_);
    if (std::min({held, decoding, taken}) > group.pages) return false;
  }
  return true;
}

std::optional<std::string> PageLedger::shortage(int64_t length) const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t pages = peak(groups_[g], {.reserved = length, .step = chunk_}, chunk_);
    if (pages > groups_[g].pages)
      return fmt::format("{} tokens need {} pages of cache group {}, which has {}", length, pages,
                         g, groups_[g].pages);
  }
  return std::nullopt;
}

}  // namespace ringkeep::engine
