#include "cli/numbers.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kv/budget.h"

namespace ringkeep::cli {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

}  // namespace

CLI::Validator whole_number(int64_t least, int64_t most) {
  const std::string range = most == kNoLimit ? fmt::format("of at least {}", least)
                                             : fmt::format("from {} to {}", least, most);
  const auto check = [least, most, range](std::string& text) -> std::string {
    const auto number = parse_number<int64_t>(text, "");
    if (!number.ok() || *number < least || *number > most)
      return fmt::format("expected a whole number {}, found \"{}\"", range, text);
    text = std::to_string(*number);
    return {};
  };
  return {check, ""};
}

CLI::Validator token_count(int64_t least, int64_t most) {
  const auto check = [least, most](std::string& text) -> std::string {
    const std::string asked = text;
    const std::string_view number = std::string_view(asked).substr(0, asked.size() - 1);
    const auto scaled = [&](double unit) {
      const auto value = parse_number<double>(number, "");
      const bool plain = number.find_first_not_of("0123456789.") == number.npos;
      if (plain && value.ok() && *value * unit < static_cast<double>(kNoLimit))
        text = fmt::format("{}", *value * unit);  // a fraction that is left is refused below
    };
    const bool whole = number.find('.') == number.npos;
    if (asked.ends_with('k')) scaled(1e3);
    if (asked.ends_with('m')) scaled(1e6);
    if (asked.ends_with('K') && whole) scaled(1 << 10);
    if (asked.ends_with('M') && whole) scaled(1 << 20);
    if (whole_number(least, most)(text).empty()) return {};
    return fmt::format(
        "expected a whole number from {} to {}, or one such as 8K (8,192) or 8k (8,000), found "
        "\"{}\"",
        least, most, asked);
  };
  return {check, ""};
}

Result<std::vector<std::string>> split_list(const std::string& text, const std::string& what) {
  std::vector<std::string> entries;
  for (size_t at = 0;;) {
    const size_t comma = std::min(text.find(',', at), text.size());
    if (comma == at)
      return make_error(
          ErrorKind::usage,
          "{}: expected entries with a comma between two of them, found \"{}\", whose "
          "entry {} is empty",
          what, text, entries.size() + 1);
    entries.push_back(text.substr(at, comma - at));
    if (comma == text.size()) return entries;
    at = comma + 1;
  }
}

CLI::Validator seed_number() {
  const auto check = [](std::string& text) -> std::string {
    const auto number = parse_number<uint64_t>(text, "");
    if (!number.ok())
      return fmt::format("expected a whole number from 0 to {}, found \"{}\"",
                         std::numeric_limits<uint64_t>::max(), text);
    text = std::to_string(*number);
    return {};
  };
  return {check, ""};
}

CLI::Validator real_number(double least, double most) {
  const auto check = [least, most](std::string& text) -> std::string {
    const auto number = parse_number<double>(text, "");
    // Written so that NaN fails.
    if (!number.ok() || !(*number >= least && *number <= most))
      return fmt::format("expected a number from {} to {}, found \"{}\"", least, most, text);
    text = fmt::format("{}", *number);
    return {};
  };
  return {check, ""};
}

CLI::Validator byte_count(std::initializer_list<int64_t> others) {
  const auto check = [others = std::vector(others)](std::string& text) -> std::string {
    const auto number = parse_number<int64_t>(text, "");
    if (number.ok() && std::ranges::count(others, *number) > 0) return {};
    const auto bytes = kv::parse_bytes(text);
    if (!bytes.ok()) {
      std::string message = bytes.error().message;
      for (const int64_t other : others) message += fmt::format(", or {}", other);
      return message;
    }
    text = std::to_string(*bytes);
    return {};
  };
  return {check, ""};
}

}  // namespace ringkeep::cli
