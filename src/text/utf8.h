// Well-formed UTF-8 (The Unicode Standard, table 3-7), read one step at a time.
#pragma once

#include <cstddef>
#include <string_view>

namespace ringkeep::text {

struct Utf8Step {
  enum class Kind {
    valid,       // a whole character of `size` bytes
    invalid,     // a maximal ill-formed subpart of `size` bytes: one U+FFFD
    incomplete,  // the text ends inside what may still become a character; `size` bytes are left
  };
  Kind kind;
  size_t size;
};

// The first step of `text`, which must not be empty.
Utf8Step utf8_step(std::string_view text);

// Bytes of the well-formed beginning of `text`.
size_t utf8_valid_prefix(std::string_view text);

}  // namespace ringkeep::text
