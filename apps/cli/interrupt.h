// Ctrl-C (SIGINT). Outside an InterruptScope the process ends at once with 130, which is right
// while nothing has to be finished (loading, waiting for a line). Inside one, the first Ctrl-C only
// sets a flag that the loop looks at; a second one ends the process.
#pragma once

namespace ringkeep::cli {

void install_interrupt_handler();

class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  bool interrupted() const;
};

}  // namespace ringkeep::cli
