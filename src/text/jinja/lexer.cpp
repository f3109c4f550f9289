#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "text/jinja/unicode.h"

namespace ringkeep::text::jinja {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }
bool name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<uint8_t>(c) >= 0x80;
}

std::string_view rstrip(std::string_view text) {
  size_t end = 0;
  for (size_t pos = 0; pos < text.size();) {
    if (!is_space(next_code_point(text, pos))) end = pos;
  }
  return text.substr(0, end);
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) root();
    add(TokenKind::end, source_.size());
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(size_t offset, std::string message) const {
    throw SyntaxError{std::move(message), static_cast<uint32_t>(offset)};
  }
  Token& add(TokenKind kind, size_t offset, std::string text = {}) {
    tokens_.push_back({kind, std::move(text), 0, 0.0, static_cast<uint32_t>(offset)});
    return tokens_.back();
  }
  bool at(std::string_view text, size_t pos) const {
    return source_.substr(std::min(pos, source_.size())).starts_with(text);
  }
  size_t skip_space(size_t pos) const {
    while (pos < source_.size()) {
      size_t next = pos;
      if (!is_space(next_code_point(source_, next))) break;
      pos = next;
    }
    return pos;
  }
  // After "%}" or "#}": trim_blocks removes one line break.
  size_t skip_line_break(size_t pos) const { return at("\n", pos) ? pos + 1 : pos; }

  // The end of a tag at `pos` ("%}", "-%}", "+%}"), with the whitespace that it removes, or npos.
  size_t tag_end(size_t pos, std::string_view close, bool trim) const {
    if (at("-", pos) && at(close, pos + 1)) return skip_space(pos + 1 + close.size());
    if (trim && at("+", pos) && at(close, pos + 1)) return pos + 1 + close.size();
    if (at(close, pos)) return trim ? skip_line_break(pos + close.size()) : pos + close.size();
    return std::string_view::npos;
  }

  // Text before a tag, which begins at `tag` with a sign (or none) at tag + 2.
  void data(size_t tag, bool strip) {
    std::string_view text = source_.substr(pos_, tag - pos_);
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    if (sign == '-') {
      text = rstrip(text);
    } else if (sign != '+' && strip) {
      const size_t line = text.rfind('\n') + 1;  // npos + 1 = 0
      if ((line > 0 || line_starting_) && rstrip(text.substr(line)).empty()) {
        text = text.substr(0, line);
      }
    }
    if (!text.empty()) add(TokenKind::data, pos_, std::string(text));
  }

  void move_to(size_t pos) {
    line_starting_ = pos > 0 && source_[pos - 1] == '\n';
    pos_ = pos;
  }

  void root() {
    size_t tag = pos_;
    while ((tag = source_.find('{', tag)) != std::string_view::npos && !at("{%", tag) &&
           !at("{{", tag) && !at("{#", tag)) {
      ++tag;
    }
    if (tag == std::string_view::npos) {
      add(TokenKind::data, pos_, std::string(source_.substr(pos_)));
      pos_ = source_.size();
      return;
    }
    const char kind = source_[tag + 1];
    data(tag, kind != '{');
    const bool sign =
        tag + 2 < source_.size() && (source_[tag + 2] == '-' || source_[tag + 2] == '+');
    const size_t inside = tag + (sign ? 3 : 2);
    if (kind == '#') {
      comment(tag, inside);
    } else if (kind == '{') {
      add(TokenKind::variable_begin, tag);
      expression(tag, inside, "}}", TokenKind::variable_end);
    } else if (!raw(tag, inside)) {
      add(TokenKind::block_begin, tag);
      expression(tag, inside, "%}", TokenKind::block_end);
    }
  }

  void comment(size_t tag, size_t inside) {
    const size_t close = source_.find("#}", inside);
    if (close == std::string_view::npos)
      fail(tag, "expected '#}' to end this comment, found the end");
    const bool sign = close > inside && (source_[close - 1] == '-' || source_[close - 1] == '+');
    move_to(tag_end(close - (sign ? 1 : 0), "#}", true));
  }

  bool raw(size_t tag, size_t inside) {
    size_t pos = skip_space(inside);
    if (!at("raw", pos)) return false;
    pos = skip_space(pos + 3);
    const bool strip = at("-%}", pos);
    if (!strip && !at("%}", pos)) return false;
    pos = strip ? skip_space(pos + 3) : pos + 2;
    move_to(pos);
    for (size_t end = pos; (end = source_.find("{%", end)) != std::string_view::npos; ++end) {
      size_t word = end + 2;
      if (at("-", word) || at("+", word)) ++word;
      word = skip_space(word);
      if (!at("endraw", word)) continue;
      const size_t after = tag_end(skip_space(word + 6), "%}", true);
      if (after == std::string_view::npos) continue;
      data(end, true);
      move_to(after);
      return true;
    }
    fail(tag, "expected '{% endraw %}' to end this block, found the end");
  }

  void expression(size_t tag, size_t inside, std::string_view close, TokenKind end_kind) {
    std::string open;  // brackets that are not closed yet
    size_t pos = inside;
    while (true) {
      pos = skip_space(pos);
      if (pos >= source_.size()) {
        fail(tag, fmt::format("expected '{}' to end this tag, found the end", close));
      }
      if (open.empty()) {
        const size_t end = tag_end(pos, close, end_kind == TokenKind::block_end);
        if (end != std::string_view::npos) {
          add(end_kind, pos);
          move_to(end);
          return;
        }
      }
      const char c = source_[pos];
      if (digit(c)) {
        pos = number(pos);
      } else if (name_start(c)) {
        pos = name(pos);
      } else if (c == '\'' || c == '"') {
        pos = string(pos);
      } else {
        pos = op(pos, open);
      }
    }
  }

  size_t name(size_t pos) {
    const size_t begin = pos;
    while (pos < source_.size()) {
      size_t next = pos;
      const char32_t c = next_code_point(source_, next);
      if (!is_word(c)) break;
      pos = next;
    }
    if (pos == begin) unexpected(begin);
    add(TokenKind::name, begin, std::string(source_.substr(begin, pos - begin)));
    return pos;
  }

  [[noreturn]] void unexpected(size_t pos) const {
    size_t next = pos;
    next_code_point(source_, next);
    fail(pos, fmt::format("unexpected character '{}'", source_.substr(pos, next - pos)));
  }

  // (\d+_)*\d+ ; returns where it ends, or `pos` when there is none.
  size_t digits(size_t pos) const {
    size_t end = pos;
    while (end < source_.size() && digit(source_[end])) {
      while (end < source_.size() && digit(source_[end])) ++end;
      if (end + 1 < source_.size() && source_[end] == '_' && digit(source_[end + 1])) ++end;
    }
    return end;
  }

  size_t number(size_t begin) {
    const bool after_dot = begin > 0 && source_[begin - 1] == '.';  // a.0.1: no float
    size_t end = digits(begin);
    bool floating = false;
    if (!after_dot) {
      if (at(".", end) && digits(end + 1) > end + 1) {
        end = digits(end + 1);
        floating = true;
      }
      if (at("e", end) || at("E", end)) {
        size_t exponent = end + 1;
        if (at("+", exponent) || at("-", exponent)) ++exponent;
        if (digits(exponent) > exponent) {
          end = digits(exponent);
          floating = true;
        }
      }
    }
    if (floating) {
      std::string text(source_.substr(begin, end - begin));
      std::erase(text, '_');
      double value = 0.0;
      if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
        fail(begin, fmt::format("the number {} does not fit a double", text));
      }
      add(TokenKind::floating, begin).floating = value;
      return end;
    }
    return integer(begin, end);
  }

  size_t integer(size_t begin, size_t end) {
    int base = 10;
    size_t first = begin;
    if (source_[begin] == '0' && begin + 1 < source_.size()) {
      const char c = static_cast<char>(source_[begin + 1] | 0x20);
      base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
    }
    std::string text;
    if (base != 10) {
      first = begin + 2;
      for (end = first;
           end < source_.size() &&
           (std::isxdigit(static_cast<uint8_t>(source_[end])) || source_[end] == '_');) {
        ++end;
      }
    }
    text = source_.substr(first, end - first);
    std::erase(text, '_');
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error == std::errc::result_out_of_range) {
      fail(begin,
           fmt::format("the number {} does not fit 64 bits", source_.substr(begin, end - begin)));
    }
    if (error != std::errc() || rest != text.data() + text.size()) {
      fail(begin, fmt::format("'{}' is not a number", source_.substr(begin, end - begin)));
    }
    add(TokenKind::integer, begin).integer = value;
    return end;
  }

  size_t string(size_t begin) {
    const char quote = source_[begin];
    std::string text;
    size_t pos = begin + 1;
    while (true) {
      if (pos >= source_.size()) {
        fail(begin, fmt::format("expected {} to end this string, found the end", quote));
      }
      const char c = source_[pos];
      if (c == quote) break;
      if (c == '\\') {
        pos = escape(pos, text);
      } else {
        text += c;
        ++pos;
      }
    }
    add(TokenKind::string, begin, std::move(text));
    return pos + 1;
  }

  // Python's escapes in string literals; an unknown one stays as it is.
  size_t escape(size_t pos, std::string& out) {
    const char c = pos + 1 < source_.size() ? source_[pos + 1] : '\0';
    constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t i = kFrom.find(c); c != '\0' && i != std::string_view::npos) {
      out += kTo[i];
      return pos + 2;
    }
    if (c == '\n') return pos + 2;
    size_t begin = pos + 2, count = 0;
    int base = 16;
    if (c == 'x') {
      count = 2;
    } else if (c == 'u') {
      count = 4;
    } else if (c == 'U') {
      count = 8;
    } else if (c >= '0' && c <= '7') {
      base = 8;
      begin = pos + 1;
      for (count = 1; count < 3 && begin + count < source_.size() &&
                      source_[begin + count] >= '0' && source_[begin + count] <= '7';) {
        ++count;
      }
    } else if (c == 'N') {
      fail(pos, "\\N{...} escapes are not supported");
    } else {
      out += '\\';
      return pos + 1;
    }
    const std::string_view text = source_.substr(std::min(begin, source_.size()), count);
    uint32_t code = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), code, base);
    if (error != std::errc() || text.size() != count || rest != text.data() + count ||
        code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
      fail(pos, fmt::format("expected {} digits of a character in the escape '\\{}'", count, c));
    }
    append_code_point(out, code);
    return begin + count;
  }

  size_t op(size_t pos, std::string& open) {
    constexpr std::array<std::string_view, 8> kLong = {"//", "**", "==", "!=", ">=", "<="};
    for (const std::string_view text : kLong) {
      if (!text.empty() && at(text, pos)) {
        add(TokenKind::op, pos, std::string(text));
        return pos + 2;
      }
    }
    const char c = source_[pos];
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) unexpected(pos);
    if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) fail(pos, fmt::format("unexpected '{}'", c));
      if (open.back() != c) fail(pos, fmt::format("expected '{}', found '{}'", open.back(), c));
      open.pop_back();
    }
    add(TokenKind::op, pos, std::string(1, c));
    return pos + 1;
  }

  std::string_view source_;
  size_t pos_ = 0;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string normalize_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

std::string describe_position(std::string_view source, uint32_t offset) {
  const std::string_view before = source.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_begin = before.rfind('\n') + 1;
  const auto column = 1 + std::count_if(before.begin() + static_cast<std::ptrdiff_t>(line_begin),
                                        before.end(), [](char c) { return (c & 0xC0) != 0x80; });
  return fmt::format("line {}, column {}", line, column);
}

}  // namespace ringkeep::text::jinja
