#include "text/vocabulary.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace ringkeep::text {
namespace {

Status check_id(const char* name, int32_t id, size_t vocab) {
  if (id < -1 || id >= static_cast<int64_t>(vocab)) {
    return input_error("tokenizer: {} token id {} is outside the vocabulary of {} tokens", name, id,
                       vocab);
  }
  return {};
}

Status check(const TokenizerData& data) {
  const size_t vocab = data.pieces.size();
  size_t bytes = 0;
  for (const std::string& piece : data.pieces) bytes += piece.size();
  if (data.kind == TokenizerData::Kind::none) {
    return input_error("the checkpoint has no usable tokenizer{}{}", data.note.empty() ? "" : ": ",
                       data.note);
  }
  if (vocab == 0 || vocab > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return input_error("tokenizer: expected 1 to 2^31-1 tokens, found {}", vocab);
  }
  if (bytes > std::numeric_limits<uint32_t>::max()) {
    return input_error("tokenizer: its tokens hold {} bytes, expected less than 2^32", bytes);
  }
  if (data.types.size() != vocab) {
    return input_error("tokenizer: expected {} token types, found {}", vocab, data.types.size());
  }
  const bool needs_scores = data.kind == TokenizerData::Kind::spm_bpe && data.merges.empty();
  if (needs_scores ? data.scores.size() != vocab
                   : !data.scores.empty() && data.scores.size() != vocab) {
    return input_error("tokenizer: expected {} scores, found {}", vocab, data.scores.size());
  }
  for (size_t i = 0; i < data.scores.size(); ++i) {
    if (std::isnan(data.scores[i])) {
      return input_error("tokenizer: the score of token {} is not a number", i);
    }
  }
  RK_TRY(check_id("bos", data.bos, vocab));
  RK_TRY(check_id("eos", data.eos, vocab));
  RK_TRY(check_id("unk", data.unk, vocab));
  RK_TRY(check_id("pad", data.pad, vocab));
  for (const int32_t id : data.end_of_generation) {
    if (id < 0) return input_error("tokenizer: end-of-generation token id {} is negative", id);
    RK_TRY(check_id("end-of-generation", id, vocab));
  }
  if (data.add_bos && data.bos < 0) {
    return input_error("tokenizer: a BOS token is to be added, but none is named");
  }
  if (data.add_eos && data.eos < 0) {
    return input_error("tokenizer: an EOS token is to be added, but none is named");
  }
  return {};
}

}  // namespace

std::optional<uint8_t> parse_byte_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
  if (error != std::errc() || end != piece.data() + 5) return std::nullopt;
  return byte;
}

PieceList::PieceList(const std::vector<std::string>& pieces) {
  size_t bytes = 0;
  for (const std::string& piece : pieces) bytes += piece.size();
  bytes_.reserve(bytes);
  ends_.reserve(pieces.size());
  for (const std::string& piece : pieces) {
    bytes_ += piece;
    ends_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
}

Result<std::unique_ptr<Vocabulary>> Vocabulary::create(TokenizerData data) {
  RK_TRY(check(data));
  auto vocabulary = std::make_unique<Vocabulary>();
  vocabulary->data = std::move(data);
  const TokenizerData& kept = vocabulary->data;
  vocabulary->pieces = PieceList(kept.pieces);
  std::vector<std::string>().swap(vocabulary->data.pieces);
  const bool spm = kept.kind == TokenizerData::Kind::spm_bpe;
  vocabulary->byte_ids.fill(-1);
  vocabulary->ids_ = FlatIndex(vocabulary->pieces.size());
  for (size_t i = 0; i < vocabulary->pieces.size(); ++i) {
    const std::string_view piece = vocabulary->pieces[i];
    const auto id = static_cast<int32_t>(i);
    if (vocabulary->find(piece) < 0) vocabulary->ids_.insert(hash(piece), id);
    vocabulary->longest_piece = std::max(vocabulary->longest_piece, piece.size());
    std::optional<uint8_t> byte;
    if (spm && kept.types[i] == TokenType::byte) {
      byte = parse_byte_piece(piece);
      if (!byte) {
        return input_error("tokenizer: token {} is a byte token: expected <0xNN>, found '{}'", i,
                           piece);
      }
    } else if (!spm && piece.size() == 1 && kept.types[i] != TokenType::control) {
      byte = static_cast<uint8_t>(piece[0]);
    }
    if (byte && vocabulary->byte_ids[*byte] < 0) vocabulary->byte_ids[*byte] = id;
  }
  return vocabulary;
}

}  // namespace ringkeep::text
