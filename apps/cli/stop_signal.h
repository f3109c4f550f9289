// SIGINT and SIGTERM as an orderly end: the first asks for it, the second does not wait.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace ringkeep::cli {

// Made before any other thread, which then inherit that these signals are not theirs.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The signal that arrived within so long, or 0.
  int wait(std::chrono::milliseconds time);
  // Until this is called the first signal ends the process at once too: there is nothing to finish.
  void serving() { serving_ = true; }

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  int signal_ = 0;
  std::atomic<bool> serving_{false};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace ringkeep::cli
