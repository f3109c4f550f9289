#include "cli/interrupt.h"

#include <csignal>

#include <unistd.h>

namespace ringkeep::cli {
namespace {

volatile std::sig_atomic_t scope_open = 0;
volatile std::sig_atomic_t pressed = 0;

void on_interrupt(int) {
  if (scope_open == 0 || pressed != 0) {
    if (::isatty(2) != 0) {
      // Leaves the line of a progress bar clean.
      static constexpr char kClear[] = "\r\033[K";
      [[maybe_unused]] const ssize_t written = ::write(2, kClear, sizeof kClear - 1);
    }
    ::_exit(130);
  }
  pressed = 1;
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
}

InterruptScope::InterruptScope() {
  pressed = 0;
  scope_open = 1;
}

InterruptScope::~InterruptScope() { scope_open = 0; }

bool InterruptScope::interrupted() const { return pressed != 0; }

}  // namespace ringkeep::cli
