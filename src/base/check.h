// RK_CHECK: aborts with file, line and a message when one of our own invariants is broken.
#pragma once

#include <fmt/format.h>

#include <string>

namespace ringkeep {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

}  // namespace ringkeep

// RK_CHECK(condition) or RK_CHECK(condition, "format", args...)
#define RK_CHECK(condition, ...)                                                               \
  do {                                                                                         \
    if (!(condition)) [[unlikely]]                                                             \
      ::ringkeep::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
