// An engine on a thread of its own. Requests come in from any thread; what becomes of them goes to
// their handlers. One bad request never ends the engine, and an engine that dies or stands still
// ends every request with an error, so that nobody waits for ever. Nor does a lack of memory end
// it: what a request holds is given back with its error.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace ringkeep::engine {

struct ServiceOptions {
  // Requests that are open at once, running or waiting; more are refused as busy. 0: any number.
  int64_t max_open = 0;
  // Without a heartbeat for so many seconds while there is work, the engine counts as stalled. Time
  // in which the whole process stood still does not count.
  double stalled_after = 4.5;
  // Tests: "throw:N" (step N throws), "memory:N" (its first layer has no memory), "memory:N:step"
  // (the step has none), "stall:N:SECONDS" (step N stands still), "slow:MS" (every step takes
  // longer); empty: none.
  std::string fault;
};

// One piece of news about a request of a group.
struct Update {
  size_t index = 0;       // of the request in its group
  bool accepted = false;  // the engine took it; `event` is empty
  Event event;            // of the step that has just run; with an error it is the last
  GenerationStats stats;  // so far
  std::chrono::steady_clock::time_point time;
  bool last() const { return event.finish != FinishReason::none || event.error.has_value(); }
};

inline constexpr std::array<int64_t, 8> kRowBounds = {1, 2, 4, 8, 16, 32, 64, 128};

// The state after a step, at most a tenth of a second old while steps run.
struct Snapshot {
  ServingStats serving;
  std::vector<kv::GroupUsage> groups;  // as the plan's groups
  size_t bytes_used = 0;
  std::vector<SequenceView> sequences;
  std::optional<ExpertUsage> experts;
  // Steps by the sequences that they served, at most kRowBounds[i], and those with more.
  std::vector<int64_t> steps_by_rows;  // [bounds + 1]
  int64_t rows = 0;                    // of all steps
};

struct EngineHealth {
  enum class State { alive, stalled, dead };
  State state = State::alive;
  std::string reason;            // empty while alive
  double stalled_seconds = 0.0;  // since the last heartbeat, while stalled
};

class Service {
 public:
  // Called on the service's threads; must be quick and must not call the service back.
  using Handler = std::function<void(const Update&)>;

  // The engine must outlive the service, and is touched by nobody else meanwhile.
  // Errors (usage): a fault that is none.
  static Result<std::unique_ptr<Service>> start(Engine& engine, const ServiceOptions& options);
  // Ends open requests with an error. An engine that stands still is waited for.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Hands in requests that stand or fall together; of those after the first, the ones with
  // `fork_of` < 0 share the prompt of the group's request -fork_of - 1. Each request gets updates
  // until its last one; when the engine refuses one, all end with its error. Returns the group's
  // id. Errors: busy (no room for all of them now, or draining), runtime (the engine is dead or
  // stalled).
  Result<int64_t> submit(std::vector<Request> group, Handler handler);
  // No updates follow, save one that is under way on another thread.
  void cancel(int64_t group);

  Snapshot snapshot() const;
  EngineHealth health() const;
  int64_t open_requests() const;
  // Takes no more requests, waits until those that are open have ended, and after `seconds` ends
  // the rest with an error. False when some were cut short.
  bool drain(double seconds);

 private:
  Service();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringkeep::engine
