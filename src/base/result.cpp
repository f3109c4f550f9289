#include "base/result.h"

#include <cstdio>
#include <cstdlib>

namespace ringkeep {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage: return 2;
    case ErrorKind::refused: return 3;
    case ErrorKind::input: return 4;
    case ErrorKind::runtime: return 1;
    case ErrorKind::busy: return 1;
    case ErrorKind::interrupted: return 130;
  }
  return 1;
}

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "%s:%d: check failed: %s%s%s\n", file, line, condition,
               message.empty() ? "" : ": ", message.c_str());
  std::abort();
}

}  // namespace ringkeep
