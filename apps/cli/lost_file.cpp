#include "cli/lost_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "base/result.h"

namespace ringkeep::cli {
namespace {

// Only what a signal handler may do: no allocation, no stdio.

std::atomic_flag told;      // by one thread, of all that read the file
char line[PATH_MAX + 128];  // of /proc/self/maps
int code = exit_code(ErrorKind::input);

// The number in hexadecimal digits at `p`, which is moved behind them.
uintptr_t hexadecimal(const char*& p) {
  uintptr_t value = 0;
  for (;; ++p) {
    if (*p >= '0' && *p <= '9')
      value = value * 16 + static_cast<uintptr_t>(*p - '0');
    else if (*p >= 'a' && *p <= 'f')
      value = value * 16 + static_cast<uintptr_t>(*p - 'a' + 10);
    else
      return value;
  }
}

// "begin-end rights offset device inode    path": the path, when the address lies in the mapping.
const char* path_in(const char* mapping, uintptr_t address) {
  const uintptr_t begin = hexadecimal(mapping);
  if (*mapping++ != '-' || address < begin || address >= hexadecimal(mapping)) return nullptr;
  return std::strchr(mapping, '/');
}

// The file that is mapped at the address, or null.
const char* file_at(uintptr_t address) {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return nullptr;
  size_t used = 0;
  for (char c; ::read(maps, &c, 1) == 1;) {
    if (c != '\n') {
      if (used + 1 < sizeof line) line[used++] = c;
      continue;
    }
    line[used] = 0;
    used = 0;
    if (const char* path = path_in(line, address)) return path;
  }
  return nullptr;
}

void tell(const char* text) { [[maybe_unused]] const auto n = ::write(2, text, std::strlen(text)); }

void on_bus_error(int signal, siginfo_t* info, void*) {
  while (told.test_and_set()) ::pause();  // until the process has ended
  const char* path = file_at(reinterpret_cast<uintptr_t>(info->si_addr));
  if (path == nullptr) {  // not a file: a crash like any other
    ::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  tell("ringkeep: error: ");
  tell(path);
  tell(
      ": it can no longer be read: expected the file that was opened, found it cut short or its "
      "disk failing\n");
  ::_exit(code);
}

}  // namespace

void install_lost_file_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace ringkeep::cli
