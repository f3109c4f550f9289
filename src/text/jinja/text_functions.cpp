#include "text/jinja/text_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "text/jinja/unicode.h"

namespace ringkeep::text::jinja {

std::string strip(std::string_view text, std::optional<std::string_view> characters, Side side) {
  const std::vector<char32_t> points = code_points(text);
  const std::vector<char32_t> set = characters ? code_points(*characters) : std::vector<char32_t>();
  const auto removed = [&](char32_t c) {
    return characters ? std::find(set.begin(), set.end(), c) != set.end() : is_space(c);
  };
  size_t begin = 0, end = points.size();
  while (side != Side::right && begin < end && removed(points[begin])) ++begin;
  while (side != Side::left && end > begin && removed(points[end - 1])) --end;
  return to_utf8(points, begin, end);
}

std::string replace_text(Runtime& runtime, std::string_view text, std::string_view from,
                         std::string_view to, int64_t count) {
  std::string out;
  const auto add = [&](std::string_view piece) {
    out += piece;
    if (static_cast<int64_t>(out.size()) > runtime.limits().output) {
      throw TemplateError{
          fmt::format("replace makes more than {} MiB", runtime.limits().output >> 20)};
    }
  };
  if (count < 0) count = std::numeric_limits<int64_t>::max();
  runtime.step(static_cast<int64_t>(text.size() / 64));
  size_t pos = 0;
  if (from.empty()) {  // before every character and at the end
    while (count > 0) {
      add(to);
      --count;
      if (pos >= text.size()) break;
      const size_t begin = pos;
      next_code_point(text, pos);
      add(text.substr(begin, pos - begin));
    }
  } else {
    for (; count > 0; --count) {
      const size_t found = text.find(from, pos);
      if (found == std::string_view::npos) break;
      add(text.substr(pos, found - pos));
      add(to);
      pos = found + from.size();
    }
  }
  add(text.substr(std::min(pos, text.size())));
  return out;
}

std::string pad(Runtime& runtime, const Value& value, int64_t width, char32_t fill, Align align) {
  const int64_t size = length(runtime, value);
  const int64_t total = std::max<int64_t>(width - size, 0);
  if (total > runtime.limits().output) {
    throw TemplateError{
        fmt::format("a width of {}; at most {} is allowed", width, runtime.limits().output)};
  }
  int64_t left = 0;
  if (align == Align::right) left = total;
  if (align == Align::center) left = total / 2 + (total & width & 1);  // as str.center rounds
  std::string out;
  for (int64_t i = 0; i < left; ++i) append_code_point(out, fill);
  out += value.text();
  for (int64_t i = left; i < total; ++i) append_code_point(out, fill);
  return out;
}

std::optional<std::string_view> optional_text(const Value* value, std::string_view what) {
  if (value == nullptr || value->is_none()) return std::nullopt;
  return to_text(*value, what);
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = pos;
    const char32_t c = next_code_point(text, pos);
    if (!is_line_break(c)) continue;
    if (c == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    lines.emplace_back(text.substr(begin, (keep_ends ? pos : end) - begin));
    begin = pos;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

namespace {

// Without the underscores between digits that Python allows; nothing when one is misplaced.
std::optional<std::string> without_underscores(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || !std::isalnum(static_cast<uint8_t>(text[i - 1])) ||
               !std::isalnum(static_cast<uint8_t>(text[i + 1]))) {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace

std::optional<int64_t> parse_int(std::string_view text, int base) {
  const auto digits = without_underscores(strip(text, std::nullopt, Side::both));
  if (!digits || (base != 0 && (base < 2 || base > 36))) return std::nullopt;
  std::string_view rest = *digits;
  bool negative = false;
  if (rest.starts_with('-') || rest.starts_with('+')) {
    negative = rest.front() == '-';
    rest.remove_prefix(1);
  }
  if (rest.size() > 2 && rest[0] == '0') {
    const char c = static_cast<char>(rest[1] | 0x20);
    const int prefix = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
    if (prefix != 0 && (base == prefix || base == 0)) {
      base = prefix;
      rest.remove_prefix(2);
    }
  }
  if (base == 0) base = 10;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value, base);
  if (error != std::errc() || end != rest.data() + rest.size()) return std::nullopt;
  const uint64_t most = uint64_t{1} << 63;
  if (value > most || (!negative && value == most)) return std::nullopt;
  return static_cast<int64_t>(negative ? 0 - value : value);
}

std::optional<double> parse_double(std::string_view text) {
  const auto cleaned = without_underscores(strip(text, std::nullopt, Side::both));
  if (!cleaned) return std::nullopt;
  std::string_view rest = *cleaned;
  if (rest.starts_with('+')) {
    rest.remove_prefix(1);
    if (rest.starts_with('-')) return std::nullopt;
  }
  std::string_view unsigned_text = rest.starts_with('-') ? rest.substr(1) : rest;
  const std::string lower = to_lower(unsigned_text);
  const double sign = rest.starts_with('-') ? -1.0 : 1.0;
  if (lower == "inf" || lower == "infinity") return sign * std::numeric_limits<double>::infinity();
  if (lower == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (unsigned_text.empty() || std::isalpha(static_cast<uint8_t>(unsigned_text.front())))
    return std::nullopt;
  double value = 0.0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (end != rest.data() + rest.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {  // too large or too small for a double
    const size_t e = lower.find('e');
    const bool tiny = e != std::string::npos && e + 1 < lower.size() && lower[e + 1] == '-';
    return sign * (tiny ? 0.0 : std::numeric_limits<double>::infinity());
  }
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace ringkeep::text::jinja
