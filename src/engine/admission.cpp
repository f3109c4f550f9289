#include "engine/admission.h"

#include <algorithm>

namespace ringkeep::engine {

bool Admission::fits(std::span<Ticket* const> tickets, const Seats& seats) const {
  std::vector<Claim> claims;
  for (const Ticket* t : tickets)
    if (t->running())
      claims.push_back({.length = t->cached,
                        .reserved = t->reserved,
                        .step = std::max<int64_t>(1, t->pending()),
                        .shares_tail = seats.shares_tail(*t)});
  return ledger_.fits(claims, seats.owned());
}

bool Admission::make_room(std::span<Ticket* const> tickets, Seats& seats) const {
  bool set_back = false;
  for (Ticket* t : tickets) {
    if (!t->running() || t->known <= t->reserved) continue;
    // To the end of the page that the next row begins.
    t->reserved = std::min(t->limit, kv::pages_for(t->known) * kernels::kPageTokens);
    while (t->running() && !fits(tickets, seats)) {
      const auto youngest = std::find_if(tickets.rbegin(), tickets.rend(),
                                         [](const Ticket* other) { return other->running(); });
      RK_CHECK(std::any_of(tickets.begin(), youngest.base() - 1,
                           [](const Ticket* other) { return other->running(); }),
               "request {} does not fit alone", t->id);
      seats.close(**youngest, true);
      (*youngest)->reserved = 0;
      set_back = true;
    }
  }
  return set_back;
}

std::vector<int64_t> Admission::update(std::span<Ticket* const> tickets, Seats& seats) const {
  std::vector<int64_t> admitted;
  if (make_room(tickets, seats)) return admitted;
  int64_t places = places_ - std::count_if(tickets.begin(), tickets.end(),
                                           [](const Ticket* t) { return t->running(); });
  for (Ticket* t : tickets) {
    if (places == 0) break;
    if (t->running() || seats.waits(*t)) continue;
    if (!seats.open(*t)) break;
    t->reserved = first_claim(t->known, t->limit);
    if (!fits(tickets, seats)) {
      t->reserved = 0;
      seats.close(*t, false);
      break;
    }
    admitted.push_back(t->id);
    --places;
  }
  return admitted;
}

}  // namespace ringkeep::engine
