// Template source to tokens, with jinja2's rules for whitespace (trim_blocks, lstrip_blocks and
// the signs - and +).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace ringkeep::text::jinja {

enum class TokenKind : uint8_t {
  data,            // text between tags
  variable_begin,  // {{
  variable_end,    // }}
  block_begin,     // {%
  block_end,       // %}
  name,
  string,
  integer,
  floating,
  op,
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  // data, name, string (unescaped), operator
  int64_t integer = 0;
  double floating = 0.0;
  uint32_t offset = 0;  // into the normalized source
};

// An error of the source at an offset.
struct SyntaxError {
  std::string message;
  uint32_t offset = 0;
};

// Line breaks become \n and one at the end is dropped.
std::string normalize_source(std::string_view source);
// Throws SyntaxError. The last token is `end`.
std::vector<Token> tokenize(std::string_view source);
// "line 3, column 7" of an offset; columns count code points from 1.
std::string describe_position(std::string_view source, uint32_t offset);

}  // namespace ringkeep::text::jinja
