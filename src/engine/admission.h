// Who runs: which waiting requests get a sequence, and which running one is set back when pages run
// out. Bookkeeping only: sequences and pages are the business of Seats, in the engine those of the
// store, in tests numbers.
//
// A request that is admitted has pages set aside for its tokens and the next `reserve_tokens`, or
// fewer where it cannot come to so many. One that grows past that takes pages that nobody has been
// promised, one at a time; where there are none, the youngest running request is set back: its
// pages are free, and it waits at its old place for being admitted and computed again. The oldest
// request is never set back for another and any request fits alone, so that every one comes to its
// end.
//
// Waiting requests are admitted in order of arrival, and one for which there is no room holds up
// all behind it. Only one that waits for rows which another is computing anyway (Seats::waits) lets
// those behind it pass, for that long.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/page_ledger.h"

namespace ringkeep::engine {

// A request as admission and the scheduler see it.
struct Ticket {
  int64_t id = 0;        // rises with arrival
  int64_t known = 0;     // tokens: the prompt and what was generated
  int64_t limit = 0;     // tokens that it may come to, > known while it runs
  int64_t cached = 0;    // of those known, in the cache
  int64_t reserved = 0;  // tokens that pages are set aside for; 0: it waits

  bool running() const { return reserved > 0; }
  int64_t pending() const { return known - cached; }
};

class Seats {
 public:
  virtual ~Seats() = default;
  // Whether the request had better wait for rows that a running one is computing.
  virtual bool waits(const Ticket& ticket) = 0;
  // A sequence for the request, with what is there of its prompt: sets `cached`. False: there is
  // none.
  virtual bool open(Ticket& ticket) = 0;
  // Gives its pages back, and sets `cached` to 0. `set_back`: it had begun and goes on later.
  virtual void close(Ticket& ticket, bool set_back) = 0;
  virtual bool shares_tail(const Ticket& ticket) const = 0;  // see Claim
  virtual std::vector<int64_t> owned() const = 0;            // [groups] see PageLedger::fits
};

class Admission {
 public:
  Admission(const kv::KvPlan& plan, int64_t reserve_tokens)
      : ledger_(plan), places_(plan.parallel), reserve_tokens_(reserve_tokens) {}

  // What the next step needs: pages for those that run, and then new ones. `tickets` in order of
  // arrival. Returns the requests that were admitted.
  std::vector<int64_t> update(std::span<Ticket* const> tickets, Seats& seats) const;

  // Why a request of `prompt` tokens can never be admitted, or nothing.
  std::optional<std::string> never(int64_t prompt, int64_t limit) const {
    return ledger_.shortage(first_claim(prompt, limit));
  }

 private:
  int64_t first_claim(int64_t known, int64_t limit) const {
    return std::min(limit, known + reserve_tokens_);
  }
  // True when somebody was set back.
  bool make_room(std::span<Ticket* const> tickets, Seats& seats) const;
  bool fits(std::span<Ticket* const> tickets, const Seats& seats) const;

  PageLedger ledger_;
  int64_t places_;
  int64_t reserve_tokens_;
};

}  // namespace ringkeep::engine
