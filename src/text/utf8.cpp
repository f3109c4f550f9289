#include "text/utf8.h"

#include <cstdint>
#include <cstring>

namespace ringkeep::text {

Utf8Step utf8_step(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {Utf8Step::Kind::valid, 1};
  size_t size = 0;
  uint8_t low = 0x80, high = 0xBF;  // allowed range of the second byte
  if (lead >= 0xC2 && lead <= 0xDF) {
    size = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    size = 3;
    if (lead == 0xE0) low = 0xA0;   // no overlong forms
    if (lead == 0xED) high = 0x9F;  // no surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    size = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;  // nothing above U+10FFFF
  } else {
    return {Utf8Step::Kind::invalid, 1};
  }
  for (size_t i = 1; i < size; ++i) {
    if (i == text.size()) return {Utf8Step::Kind::incomplete, i};
    if (byte(i) < low || byte(i) > high) return {Utf8Step::Kind::invalid, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Step::Kind::valid, size};
}

size_t utf8_valid_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t word = 0;
    if (text.size() - at >= sizeof word) {  // eight ASCII bytes at once
      std::memcpy(&word, text.data() + at, sizeof word);
      if ((word & 0x8080808080808080u) == 0) {
        at += sizeof word;
        continue;
      }
    }
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind != Utf8Step::Kind::valid) break;
    at += step.size;
  }
  return at;
}

}  // namespace ringkeep::text
