// Log lines go to stderr through spdlog; results never do. Progress bars only on a terminal.
#pragma once

#include <spdlog/spdlog.h>

#include <chrono>
#include <string>

namespace ringkeep {

// Sets up the stderr logger once: level from `verbosity` (0 warnings, 1 info, 2 debug), colours
// only on a terminal and without NO_COLOR.
void init_log(int verbosity);

// A progress bar on stderr when stderr is a terminal, silent otherwise. Work of some length shows
// how much time it still needs at the speed so far.
class Progress {
 public:
  Progress(std::string label, double total);
  ~Progress();
  void update(double done);

 private:
  std::string label_;
  double total_;
  std::chrono::steady_clock::time_point start_;
  int last_percent_ = -1;
  bool shown_;
};

}  // namespace ringkeep
