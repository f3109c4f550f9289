#include "cli/stop_signal.h"

#include <signal.h>
#include <unistd.h>

namespace ringkeep::cli {
namespace {

constexpr timespec kPoll{.tv_sec = 0, .tv_nsec = 100'000'000};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  // The terminal is gone, unless that was to be ignored, as by nohup.
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
    sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

StopSignal::StopSignal() {
  const sigset_t set = stop_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // a log that nobody reads any more is no reason to stop
  thread_ = std::thread([this] { run(); });
}

StopSignal::~StopSignal() {
  ended_ = true;
  thread_.join();
}

void StopSignal::run() {
  const sigset_t set = stop_signals();
  while (!ended_) {
    const int signal = ::sigtimedwait(&set, nullptr, &kPoll);
    if (signal <= 0) continue;
    const std::lock_guard lock(mutex_);
    if (signal_ != 0 || !serving_) ::_exit(128 + signal);
    signal_ = signal;
    changed_.notify_all();
  }
}

int StopSignal::wait(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [this] { return signal_ != 0; });
  return signal_;
}

}  // namespace ringkeep::cli
