// Result<T>: a value or an Error, for whatever a user, a file or a device can cause.
// RK_CHECK (check.h) is for our own bugs.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace ringkeep {

// What went wrong, in the terms of the command line's exit codes.
enum class ErrorKind {
  usage,        // bad flag or empty prompt: exit 2
  refused,      // refused by the plan (layer, codec, cache size): exit 3
  input,        // unreadable or invalid file, unknown architecture, bad template: exit 4
  runtime,      // failed while running: exit 1
  busy,         // no place in the queue now, later perhaps: exit 1
  interrupted,  // Ctrl-C: exit 130
};

int exit_code(ErrorKind kind);

// The message names the thing, what was expected and what was found.
struct Error {
  ErrorKind kind = ErrorKind::runtime;
  std::string message;
};

template <typename... Args>
Error make_error(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  return Error{kind, fmt::format(format, std::forward<Args>(args)...)};
}

template <typename... Args>
Error input_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error{ErrorKind::input, fmt::format(format, std::forward<Args>(args)...)};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    RK_CHECK(ok(), "{}", error().message);
    return std::get<0>(state_);
  }
  const T& value() const& {
    RK_CHECK(ok(), "{}", error().message);
    return std::get<0>(state_);
  }
  T&& value() && {
    RK_CHECK(ok(), "{}", error().message);
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}
  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  void value() const { RK_CHECK(ok_, "{}", error_.message); }
  const Error& error() const& { return error_; }
  Error&& error() && { return std::move(error_); }

 private:
  Error error_;
  bool ok_ = true;
};

using Status = Result<void>;

// auto x = RK_TRY(expression);  returns the Error of a failed expression from this function.
#define RK_TRY(...)                                             \
  ({                                                            \
    auto rk_result_ = (__VA_ARGS__);                            \
    if (!rk_result_.ok()) return std::move(rk_result_).error(); \
    std::move(rk_result_).value();                              \
  })

}  // namespace ringkeep
