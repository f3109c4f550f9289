// Faults on demand, so that tests can see what a server does when its engine dies or stands still
// (docs/serving.md, Testing).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace ringkeep::engine {

class Fault {
 public:
  // "throw:N", "memory:N", "memory:N:step", "memory:N:always", "stall:N:SECONDS", "slow:MS" or
  // nothing. Errors: usage.
  static Result<Fault> parse(const std::string& text);
  // Before each step. `beat` is the heartbeat of a step that is merely slow.
  void strike(const std::function<void()>& beat);
  // At each heartbeat, which is to say in the middle of a step.
  void strike_within();

 private:
  enum class Kind { none, raise, memory_within, memory, memory_always, stall, slow };
  Kind kind_ = Kind::none;
  int64_t step_ = 0;          // that it strikes at, counted from 1
  int64_t milliseconds_ = 0;  // of stall and slow
  int64_t steps_ = 0;         // so far
};

}  // namespace ringkeep::engine
