// The checked vocabulary of a tokenizer with the look-ups that encoders share.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/tokenizer_data.h"
#include "text/flat_index.h"

namespace ringkeep::text {

// How SentencePiece-style vocabularies write a space: U+2581.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// Pieces one after the other: a vocabulary of 262,144 strings would cost several times their bytes.
class PieceList {
 public:
  PieceList() = default;
  explicit PieceList(const std::vector<std::string>& pieces);
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t id) const {
    const uint32_t begin = id == 0 ? 0 : ends_[id - 1];
    return std::string_view(bytes_).substr(begin, ends_[id] - begin);
  }

 private:
  std::string bytes_;
  std::vector<uint32_t> ends_;  // [vocab]
};

struct Vocabulary {
  TokenizerData data;  // `pieces` and `merges` are empty: see below and merge_table.h
  PieceList pieces;    // [vocab]
  std::array<int32_t, 256> byte_ids;  // the token of each byte, or -1
  size_t longest_piece = 0;           // bytes

  // Leaves `data.merges` for the encoder to take. Errors (input): no tokenizer, inconsistent sizes,
  // ids outside the vocabulary, scores that are not numbers, malformed byte tokens.
  static Result<std::unique_ptr<Vocabulary>> create(TokenizerData data);

  // The lowest id whose piece is this, or -1.
  int32_t find(std::string_view piece) const {
    return ids_.find(hash(piece),
                     [&](int32_t id) { return pieces[static_cast<size_t>(id)] == piece; });
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
