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
#include <vector>

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
// The same, also as vLLM's --max-model-len has it: 8K is 8,192 and 8k 8,000; 1M, 1m and 25.6k too.
CLI::Validator token_count(int64_t least, int64_t most);
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

// The entries of "8,,4": as they are between the commas, or an error (usage) that names `what` and
// the one that is empty.
Result<std::vector<std::string>> split_list(const std::string& text, const std::string& what);

// An option of a list with commas between its entries; it may be given several times, and several
// lists may follow it. Every entry goes through `check`.
template <typename T>
CLI::Option* add_list(CLI::App& app, const std::string& names, std::vector<T>& values,
                      const std::string& help, const CLI::Validator& check = {}) {
  const std::string name = names.substr(names.rfind(',') + 1);
  const auto read = [&values, check, name](const CLI::results_t& given) {
    std::vector<T> all;
    for (const std::string& text : given) {
      const auto entries = split_list(text, name);
      if (!entries.ok()) throw CLI::ValidationError(entries.error().message);
      for (std::string entry : *entries) {
        if (const std::string wrong = check(entry); !wrong.empty())
          throw CLI::ValidationError(name, wrong);
        if constexpr (std::is_arithmetic_v<T>)
          all.push_back(*parse_number<T>(entry, name.c_str()));
        else
          all.push_back(std::move(entry));
      }
    }
    values = std::move(all);
    return true;
  };
  std::string shown;
  for (const T& value : values) shown += fmt::format("{}{}", shown.empty() ? "" : ",", value);
  CLI::Option* option = app.add_option(names, CLI::callback_t(read), help);
  if (!shown.empty()) option->default_str(shown);
  return option->expected(1, CLI::detail::expected_max_vector_size);
}

}  // namespace ringkeep::cli
