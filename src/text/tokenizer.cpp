#include "text/tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/added_tokens.h"
#include "text/encoder.h"
#include "text/vocabulary.h"

namespace ringkeep::text {
namespace {

constexpr size_t kMaxText = size_t{1} << 30;  // bytes; symbols are counted in 32 bits

AddedTokens collect(const Vocabulary& vocabulary, bool with_special) {
  std::vector<std::pair<std::string_view, int32_t>> tokens;
  for (size_t i = 0; i < vocabulary.pieces.size(); ++i) {
    const TokenType type = vocabulary.data.types[i];
    if (type == TokenType::user_defined ||
        (with_special && (type == TokenType::control || type == TokenType::unknown))) {
      tokens.emplace_back(vocabulary.pieces[i], static_cast<int32_t>(i));
    }
  }
  return AddedTokens(std::move(tokens));
}

std::string with_spaces(std::string_view piece) {
  std::string out;
  for (size_t at = 0; at < piece.size();) {
    const size_t mark = std::min(piece.find(kSpaceMark, at), piece.size());
    out += piece.substr(at, mark - at);
    if (mark < piece.size()) out += ' ';
    at = mark + kSpaceMark.size();
  }
  return out;
}

}  // namespace

struct Tokenizer::State {
  std::unique_ptr<Vocabulary> vocabulary;
  AddedTokens user_defined;  // matched in every text
  AddedTokens all;           // and control tokens, where specials are parsed
  std::unique_ptr<Encoder> encoder;
  std::vector<bool> ends_generation;  // [vocab]
};

Tokenizer::Tokenizer() = default;
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(TokenizerData data) {
  auto vocabulary = RK_TRY(Vocabulary::create(std::move(data)));
  auto encoder =
      RK_TRY(vocabulary->data.kind == TokenizerData::Kind::spm_bpe ? make_spm_bpe(*vocabulary)
                                                                   : make_byte_bpe(*vocabulary));
  decltype(vocabulary->data.merges)().swap(vocabulary->data.merges);  // the encoder has them
  std::vector<bool> ends(vocabulary->pieces.size());
  for (const int32_t id : vocabulary->data.end_of_generation) ends[id] = true;
  AddedTokens user_defined = collect(*vocabulary, false);
  AddedTokens all = collect(*vocabulary, true);
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer);
  tokenizer->state_ =
      std::make_unique<State>(State{std::move(vocabulary), std::move(user_defined), std::move(all),
                                    std::move(encoder), std::move(ends)});
  return tokenizer;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  RK_CHECK(text.size() <= kMaxText, "text of {} bytes, at most {}", text.size(), kMaxText);
  const TokenizerData& data = state_->vocabulary->data;
  const AddedTokens& added = options.parse_special ? state_->all : state_->user_defined;
  std::vector<int32_t> ids;
  if (options.add_special && data.add_bos) ids.push_back(data.bos);
  bool first = true;
  for (size_t at = 0; at < text.size();) {
    const auto match = added.find(text, at);
    const size_t end = match ? match->begin : text.size();
    if (end > at) state_->encoder->encode(text.substr(at, end - at), first, ids);
    if (!match) break;
    // A BOS written at the very beginning is the BOS.
    const bool second_bos = match->begin == 0 && !ids.empty() && match->id == data.bos;
    if (!second_bos) ids.push_back(match->id);
    at = match->begin + match->size;
    first = true;
  }
  if (options.add_special && data.add_eos) ids.push_back(data.eos);
  return ids;
}

std::string Tokenizer::bytes(int32_t id, bool special) const {
  if (id >= size()) return {};
  const Vocabulary& vocabulary = *state_->vocabulary;
  const std::string_view text = piece(id);
  switch (vocabulary.type(id)) {
    case TokenType::control:
    case TokenType::unknown: return special ? std::string(text) : std::string();
    case TokenType::byte:
      if (vocabulary.data.kind == TokenizerData::Kind::spm_bpe) {
        return std::string(1, static_cast<char>(*parse_byte_piece(text)));
      }
      return std::string(text);
    default:
      return vocabulary.data.kind == TokenizerData::Kind::spm_bpe ? with_spaces(text)
                                                                  : std::string(text);
  }
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool special) const {
  const Vocabulary& vocabulary = *state_->vocabulary;
  // The prefix space that encode() put before the text.
  bool strip =
      vocabulary.data.kind == TokenizerData::Kind::spm_bpe && vocabulary.data.add_space_prefix;
  std::string out;
  for (const int32_t id : ids) {
    std::string text = bytes(id, special);
    if (strip && !text.empty()) {
      if (text[0] == ' ') text.erase(0, 1);
      strip = false;
    }
    out += text;
  }
  return out;
}

int32_t Tokenizer::id_of(std::string_view piece) const { return state_->vocabulary->find(piece); }

std::string_view Tokenizer::piece(int32_t id) const {
  RK_CHECK(id >= 0 && id < size(), "token id {}, vocabulary {}", id, size());
  return state_->vocabulary->pieces[static_cast<size_t>(id)];
}

bool Tokenizer::is_control(int32_t id) const {
  RK_CHECK(id >= 0 && id < size(), "token id {}, vocabulary {}", id, size());
  return state_->vocabulary->type(id) == TokenType::control;
}

bool Tokenizer::ends_generation(int32_t id) const {
  if (id >= size()) return false;
  RK_CHECK(id >= 0 && id < size(), "token id {}, vocabulary {}", id, size());
  return state_->ends_generation[id];
}

int64_t Tokenizer::size() const { return static_cast<int64_t>(state_->vocabulary->pieces.size()); }

const TokenizerData& Tokenizer::data() const { return state_->vocabulary->data; }

}  // namespace ringkeep::text
