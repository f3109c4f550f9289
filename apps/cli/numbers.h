// Values of options that are numbers: read whole and within their range, or refused with a message
// that names the range and what was found (the library adds the option). The library's own
// conversion wraps -1, takes the nearest limit for what is out of range, lets NaN pass and reads
// 010 as eight.
#pragma once

#include <CLI/CLI.hpp>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace ringkeep::cli {

inline constexpr int64_t kMostTokens = int64_t{1} << 30;

// All of `text` as a number, or an error (usage) that names `what`.
template <typename T>
Result<T> parse_number(std::string_view text, const char* what) {
  T value{};
  if (text.starts_with('+')) text.remove_prefix(1);
  const char* end = text.data() + text.size();
  const auto [stopped, code] = std::from_chars(text.data(), end, value);
  if (text.empty() || code != std::errc() || stopped != end)
    return make_error(ErrorKind::usage, "{}: expected a number, found \"{}\"", what, text);
  return value;
}

// Each stands as a validator of its option; of a list it looks at every entry.
CLI::Validator whole_number(int64_t least, int64_t most);
CLI::Validator seed_number();  // 64 bits without a sign
CLI::Validator real_number(double least, double most);
// kv::parse_bytes, and further numbers as they are: 0 (a limit of nothing) or -1.
CLI::Validator byte_count(std::initializer_list<int64_t> others = {});

// An option whose value, or every entry of a list, is a whole number of [least, most].
template <typename T>
CLI::Option* add_integer(CLI::App& app, const std::string& names, T& value, const std::string& help,
                         int64_t least, int64_t most) {
  return app.add_option(names, value, help)
      ->transform(whole_number(least, most))
      ->type_name("N")
      ->capture_default_str();
}

CLI::Option* add_real(CLI::App& app, const std::string& names, auto& value, const std::string& help,
                      double least, double most) {
  return app.add_option(names, value, help)
      ->transform(real_number(least, most))
      ->type_name("X")
      ->capture_default_str();
}

}  // namespace ringkeep::cli
