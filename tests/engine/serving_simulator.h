// Plays arrivals through the real admission and scheduler with a clock and a cache that are
// numbers: what thousands of requests wait for, without a model. What must always hold is checked
// as it goes.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/admission.h"
#include "engine/scheduler.h"

namespace ringkeep::engine::testing {

struct Arrival {
  double time = 0;       // seconds
  int64_t prompt = 0;    // tokens
  int64_t reply = 0;     // tokens after which it ends
  int64_t limit = 0;     // tokens that it may come to for all that admission knows
  double patience = -1;  // seconds until the client goes away; < 0: never
};

struct Outcome {
  double admitted = -1, first = -1, last = -1;  // seconds; < 0: it did not come to that
  int64_t tokens = 0;
  bool cancelled = false;
};

// Seconds of a step, about those of a small model on two cores.
inline double step_seconds(int64_t sequences, int64_t rows) {
  return 0.008 + 0.002 * static_cast<double>(sequences) + 0.001 * static_cast<double>(rows);
}

class Simulator final : public Seats {
 public:
  Simulator(const kv::KvPlan& plan, int64_t reserve_tokens)
      : plan_(plan), reserve_(reserve_tokens), admission_(plan, reserve_tokens) {}

  struct Report {
    std::vector<Outcome> outcomes;
    int64_t steps = 0, set_back = 0, rows = 0;
    double seconds = 0;
    double cache_use = 0;  // mean share of the fullest group, over time
    double peak_use = 0;
  };

  Report play(const std::vector<Arrival>& arrivals) {
    report_.outcomes.resize(arrivals.size());
    size_t next = 0;
    while (next < arrivals.size() || !requests_.empty()) {
      if (requests_.empty()) clock_ = std::max(clock_, arrivals[next].time);
      for (; next < arrivals.size() && arrivals[next].time <= clock_; ++next) {
        const Arrival& a = arrivals[next];
        EXPECT_EQ(admission_.never(a.prompt, a.limit), std::nullopt);
        const auto id = static_cast<int64_t>(next);
        requests_.push_back({{.id = id, .known = a.prompt, .limit = a.limit}, &a});
      }
      for (auto r = requests_.begin(); r != requests_.end();) {
        const auto now = r++;
        if (now->arrival->patience < 0 || clock_ < now->arrival->time + now->arrival->patience)
          continue;
        outcome(*now).cancelled = true;
        requests_.erase(now);
      }
      if (!requests_.empty()) step();
      if (::testing::Test::HasFailure()) break;
    }
    report_.seconds = clock_;
    report_.cache_use /= std::max(clock_, 1e-9);
    return report_;
  }

 private:
  struct Simulated {
    Ticket ticket;
    const Arrival* arrival;
  };

  Outcome& outcome(const Simulated& r) {
    return report_.outcomes[static_cast<size_t>(r.ticket.id)];
  }

  void step() {
    std::vector<Ticket*> tickets;
    for (Simulated& r : requests_) tickets.push_back(&r.ticket);
    const int64_t oldest = tickets.front()->id;
    const bool oldest_ran = tickets.front()->running();
    set_back_now_ = 0;
    const auto admitted = admission_.update(tickets, *this);
    EXPECT_TRUE(!oldest_ran || tickets.front()->running()) << "the oldest was set back";
    for (const int64_t id : admitted) {
      Outcome& o = report_.outcomes[static_cast<size_t>(id)];
      if (o.admitted < 0) o.admitted = clock_;
    }
    check_order(tickets);

    std::vector<Job> jobs;
    for (const Ticket* t : tickets)
      if (t->running())
        jobs.push_back({t->id, t->pending(), std::min(plan_.chunk, rows_to_start(*t))});
    const StepPlan plan = schedule(jobs, plan_.step_rows());
    check_rows(jobs, plan, oldest);
    check_pages(plan);

    ++report_.steps;
    report_.rows += plan.rows;
    const double seconds = step_seconds(static_cast<int64_t>(plan.entries.size()), plan.rows);
    clock_ += seconds;
    report_.cache_use += seconds * use_;
    for (const auto& entry : plan.entries) advance(entry);
  }

  // The step does not cross --quantized-kv-start.
  int64_t rows_to_start(const Ticket& t) const {
    return plan_.crosses_start() && t.cached < plan_.quantized_start
               ? plan_.quantized_start - t.cached
               : plan_.chunk;
  }

  void advance(const StepPlan::Entry& entry) {
    const auto r =
        std::ranges::find(requests_, entry.id, [](const Simulated& s) { return s.ticket.id; });
    r->ticket.cached += entry.rows;
    if (!entry.sample) return;
    Outcome& o = outcome(*r);
    if (o.first < 0) o.first = clock_;
    ++r->ticket.known;
    if (++o.tokens < r->arrival->reply) return;
    o.last = clock_;
    requests_.erase(r);
  }

  // First come, first served; and nobody waits for whom there is room.
  void check_order(const std::vector<Ticket*>& tickets) const {
    const auto waiting =
        std::ranges::find_if(tickets, [](const Ticket* t) { return !t->running(); });
    const auto running =
        std::ranges::count_if(tickets, [](const Ticket* t) { return t->running(); });
    EXPECT_GT(running, 0);
    EXPECT_LE(running, plan_.parallel);
    if (waiting == tickets.end()) return;
    for (auto later = waiting; later != tickets.end(); ++later)
      EXPECT_FALSE((*later)->running())
          << "request " << (*later)->id << " overtook " << (*waiting)->id;
    if (running == plan_.parallel || set_back_now_ > 0) return;
    // Then it does not fit beside what the others were promised.
    bool tight = false;
    for (const kv::GroupPlan& group : plan_.groups) {
      int64_t promised = 0;
      for (auto t = tickets.begin(); t != waiting + 1; ++t) {
        const int64_t reserved =
            (*t)->running() ? (*t)->reserved : std::min((*t)->limit, (*t)->known + reserve_);
        promised += kv::sight_of(group).page_bound(plan_.chunk, plan_.rollback, reserved);
      }
      tight = tight || promised > group.pages_total;
    }
    EXPECT_TRUE(tight) << "request " << (*waiting)->id << " waits though there is room";
  }

  // Every reply gets its row, the oldest prompt half of the rest at least, and no row is left over.
  void check_rows(const std::vector<Job>& jobs, const StepPlan& plan, int64_t oldest) const {
    std::map<int64_t, int64_t> rows;
    for (const auto& entry : plan.entries) rows[entry.id] = entry.rows;
    int64_t wanted = 0, decoding = 0;
    for (const Job& job : jobs) {
      wanted += std::min(job.pending, job.max_rows);
      decoding += job.pending == 1 ? 1 : 0;
      EXPECT_TRUE(job.pending > 1 || rows[job.id] == 1);
    }
    EXPECT_EQ(plan.rows, std::min(wanted, plan_.step_rows()));
    for (const Job& job : jobs) {
      if (job.id != oldest || job.pending == 1) continue;
      EXPECT_GE(rows[job.id],
                std::min({job.pending, job.max_rows, (plan_.step_rows() - decoding + 1) / 2}));
    }
  }

  // Pages of the sequences while the step is open.
  void check_pages(const StepPlan& plan) {
    std::map<int64_t, int64_t> rows;
    for (const auto& entry : plan.entries) rows[entry.id] = entry.rows;
    use_ = 0;
    for (const kv::GroupPlan& group : plan_.groups) {
      int64_t pages = 0;
      for (const Simulated& r : requests_)
        if (r.ticket.running()) pages += held(group, r.ticket.cached, rows[r.ticket.id]);
      EXPECT_LE(pages, group.pages_total) << "step " << report_.steps;
      if (group.pages_total > 0)
        use_ = std::max(use_, static_cast<double>(pages) / static_cast<double>(group.pages_total));
    }
    report_.peak_use = std::max(report_.peak_use, use_);
  }

  // Of a sequence that adds rows to its `length`: both groups' pages where it passes the start.
  int64_t held(const kv::GroupPlan& group, int64_t length, int64_t rows) const {
    const int64_t start = plan_.quantized_start, end = length + rows;
    if (group.before_start && length >= start) return 0;
    if (group.after_start && end < start) return 0;
    const kv::Sight sight = kv::sight_of(group);
    const int64_t floor = std::max<int64_t>(0, length - plan_.rollback);
    RK_CHECK(sight.keep == 0);
    return std::max<int64_t>(0, kv::pages_for(end) - sight.oldest(floor) / kernels::kPageTokens);
  }

  bool waits(const Ticket&) override { return false; }
  bool open(Ticket& ticket) override {
    ticket.cached = 0;
    return true;
  }
  void close(Ticket& ticket, bool set_back) override {
    ticket.cached = 0;
    report_.set_back += set_back ? 1 : 0;
    set_back_now_ += set_back ? 1 : 0;
  }
  bool shares_tail(const Ticket&) const override { return false; }
  std::vector<int64_t> owned() const override {
    std::vector<int64_t> pages;
    for (const kv::GroupPlan& group : plan_.groups) {
      int64_t sum = 0;
      for (const Simulated& r : requests_)
        if (r.ticket.running()) sum += held(group, r.ticket.cached, 0);
      pages.push_back(sum);
    }
    return pages;
  }

  const kv::KvPlan& plan_;
  int64_t reserve_;
  Admission admission_;
  std::list<Simulated> requests_;  // in order of arrival
  double clock_ = 0;
  double use_ = 0;
  int64_t set_back_now_ = 0;
  Report report_;
};

inline double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

inline std::string describe(const std::vector<Arrival>& arrivals, const Simulator::Report& report) {
  std::vector<double> queue, ttft;
  int64_t tokens = 0;
  for (size_t i = 0; i < arrivals.size(); ++i) {
    const Outcome& o = report.outcomes[i];
    tokens += o.tokens;
    if (o.admitted >= 0) queue.push_back(o.admitted - arrivals[i].time);
    if (o.first >= 0) ttft.push_back(o.first - arrivals[i].time);
  }
  const auto line = [](const std::vector<double>& v) {
    return fmt::format("p50 {:.2f} p90 {:.2f} p99 {:.2f} max {:.2f} s", percentile(v, 0.5),
                       percentile(v, 0.9), percentile(v, 0.99), percentile(v, 1.0));
  };
  return fmt::format(
      "{} requests, {:.0f} s, {} steps, {} set back, {:.1f} tok/s\n  queue {}\n  ttft  {}\n  cache "
      "{:.0f} % used, {:.0f} % at most",
      arrivals.size(), report.seconds, report.steps, report.set_back,
      static_cast<double>(tokens) / report.seconds, line(queue), line(ttft), 100 * report.cache_use,
      100 * report.peak_use);
}

}  // namespace ringkeep::engine::testing
