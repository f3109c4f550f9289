// The checked vocabulary of a tokenizer with the look-ups that encoders share.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "config/tokenizer_data.h"

namespace ringkeep::text {

struct Vocabulary {
  TokenizerData data;
  // Keys are views into data.pieces, which never changes; the lowest id wins among equal pieces.
  std::unordered_map<std::string_view, int32_t> ids;
  std::array<int32_t, 256> byte_ids;  // the token of each byte, or -1
  size_t longest_piece = 0;           // bytes

  // Errors (input): no tokenizer, inconsistent sizes, ids outside the vocabulary, scores that are
  // not numbers, malformed byte tokens.
  static Result<std::unique_ptr<Vocabulary>> create(TokenizerData data);

  int32_t find(std::string_view piece) const {
    const auto it = ids.find(piece);
    return it == ids.end() ? -1 : it->second;
  }
  TokenType type(int32_t id) const { return data.types[id]; }
  // Tokens that plain text may become by merging: not control, unknown or byte tokens.
  bool is_text(int32_t id) const {
    return type(id) == TokenType::normal || type(id) == TokenType::user_defined ||
           type(id) == TokenType::unused;
  }
};

// The byte of a piece "<0xNN>".
std::optional<uint8_t> parse_byte_piece(std::string_view piece);

}  // namespace ringkeep::text
