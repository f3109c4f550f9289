// The checked vocabulary of a tokenizer with the look-ups that encoders share.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "config/tokenizer_data.h"
#include "text/flat_index.h"

namespace ringkeep::text {

struct Vocabulary {
  TokenizerData data;
  std::array<int32_t, 256> byte_ids;  // the token of each byte, or -1
  size_t longest_piece = 0;           // bytes

  // Errors (input): no tokenizer, inconsistent sizes, ids outside the vocabulary, scores that are
  // not numbers, malformed byte tokens.
  static Result<std::unique_ptr<Vocabulary>> create(TokenizerData data);

  // The lowest id whose piece is this, or -1.
  int32_t find(std::string_view piece) const {
    return ids_.find(hash(piece), [&](int32_t id) { return data.pieces[id] == piece; });
  }
  TokenType type(int32_t id) const { return data.types[id]; }
  // Tokens that plain text may become by merging: not control, unknown or byte tokens.
  bool is_text(int32_t id) const {
    return type(id) == TokenType::normal || type(id) == TokenType::user_defined ||
           type(id) == TokenType::unused;
  }

 private:
  static uint64_t hash(std::string_view piece) { return std::hash<std::string_view>{}(piece); }
  FlatIndex ids_;
};

// The byte of a piece "<0xNN>".
std::optional<uint8_t> parse_byte_piece(std::string_view piece);

}  // namespace ringkeep::text
