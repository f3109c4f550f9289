#include "grammar/cursor.h"

#include <algorithm>

#include "text/utf8.h"

namespace ringkeep::grammar {

Result<uint32_t> Cursor::take_hex(size_t digits) {
  uint32_t value = 0;
  for (size_t i = 0; i < digits; ++i) {
    const char c = peek();
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return fail(fmt::format("expected {} hexadecimal digits", digits));
    value = value << 4 | static_cast<uint32_t>(digit);
    skip(1);
  }
  if (value > kLastCodePoint || (value >= 0xD800 && value <= 0xDFFF))
    return fail("expected the number of a Unicode character", fmt::format("{:#x}", value));
  return value;
}

Result<uint32_t> Cursor::take_number(uint32_t most) {
  if (peek() < '0' || peek() > '9') return fail("expected a number");
  uint64_t value = 0;
  while (peek() >= '0' && peek() <= '9') {
    value = value * 10 + static_cast<uint64_t>(peek() - '0');
    if (value > most) return fail(fmt::format("expected a number up to {}", most), "a larger one");
    skip(1);
  }
  return static_cast<uint32_t>(value);
}

Error Cursor::fail(std::string_view expected, std::string_view found) const {
  const std::string_view before = text_.substr(0, offset());
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n');
  const std::string_view last = start == before.npos ? before : before.substr(start + 1);
  const auto column = 1 + std::count_if(last.begin(), last.end(), [](char c) {
                        return (static_cast<uint8_t>(c) & 0xC0) != 0x80;
                      });
  return make_error(ErrorKind::usage, "{}: line {}, column {}: {}, found {}", kind_, line, column,
                    expected, found);
}

std::string Cursor::found() const {
  if (at_end()) return "the end";
  const text::Utf8Step step = text::utf8_step(rest_);
  if (step.kind != text::Utf8Step::Kind::valid) return "bytes that are not UTF-8";
  if (peek() == '\n') return "the end of the line";
  if (static_cast<uint8_t>(peek()) < 0x20 || peek() == 0x7F)
    return fmt::format("the control character {:#04x}", static_cast<uint8_t>(peek()));
  return fmt::format("'{}'", rest_.substr(0, step.size));
}

}  // namespace ringkeep::grammar
