#include "text/tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/added_tokens.h"
#include "text/encoder.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace ringkeep::text {
namespace {

constexpr size_t kMaxText = size_t{1} << 30;  // bytes; symbols are counted in 32 bits

bool is_special(TokenType type) { return type == TokenType::control || type == TokenType::unknown; }

AddedTokens collect(const Vocabulary& vocabulary, bool with_special) {
  const auto wanted = [&](TokenType type) {
    return type == TokenType::user_defined || (with_special && is_special(type));
  };
  std::vector<std::pair<std::string_view, int32_t>> tokens;
  tokens.reserve(static_cast<size_t>(std::ranges::count_if(vocabulary.data.types, wanted)));
  for (size_t i = 0; i < vocabulary.pieces.size(); ++i)
    if (wanted(vocabulary.data.types[i]))
      tokens.emplace_back(vocabulary.pieces[i], static_cast<int32_t>(i));
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
  AddedTokens::Accept accept;
  if (!options.plain.empty())
    accept = [&](const AddedTokens::Match& match) {
      if (!is_special(state_->vocabulary->type(match.id))) return true;
      const auto plain = std::ranges::lower_bound(options.plain, match.begin);
      return plain == options.plain.end() || *plain >= match.begin + match.size;
    };
  std::vector<int32_t> ids;
  if (options.add_special && data.add_bos) ids.push_back(data.bos);
  bool first = true;
  for (size_t at = 0; at < text.size();) {
    const auto match = added.find(text, at, accept);
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

std::vector<size_t> Tokenizer::control_marks(std::string_view text,
                                             std::span<const int32_t> except) const {
  const AddedTokens& all = state_->all;
  const auto is_control = [&](int32_t id) { return is_special(state_->vocabulary->type(id)); };
  const auto accept = [&](const AddedTokens::Match& match) {
    return is_control(match.id) && std::ranges::count(except, match.id) == 0;
  };
  const auto character = [&](size_t at) { return utf8_step(text.substr(at)).size; };
  std::vector<size_t> marks;
  // The second character of each, so that nothing changes where the text begins.
  for (size_t at = 0; at < text.size();) {
    const auto match = all.find(text, at, accept);
    if (!match) break;
    const size_t first = character(match->begin);
    marks.push_back(match->begin + (first < match->size ? first : 0));
    at = match->begin + 1;  // others may begin within it
  }
  // What the end of the text begins.
  const size_t tail = text.size() - std::min(text.size(), all.longest());
  for (size_t at = tail; at < text.size(); ++at) {
    if (!all.continues(text.substr(at), is_control)) continue;
    size_t last = text.size() - 1;
    while (last > at && (static_cast<uint8_t>(text[last]) & 0xC0) == 0x80) --last;
    marks.push_back(last);
    break;
  }
  std::ranges::sort(marks);
  marks.erase(std::unique(marks.begin(), marks.end()), marks.end());
  return marks;
}

int64_t Tokenizer::fewest_tokens(size_t bytes) const {
  const Vocabulary& vocabulary = *state_->vocabulary;
  const TokenizerData& data = vocabulary.data;
  const bool all_bytes = std::ranges::count(vocabulary.byte_ids, -1) == 0;
  // Of characters that are unknown, one token stands for a whole run, or for a byte each.
  const bool spelled = data.kind == TokenizerData::Kind::spm_bpe ? data.byte_fallback && all_bytes
                                                                 : data.unk >= 0 || all_bytes;
  if (!spelled) return 0;
  const size_t longest = std::max<size_t>(longest_token(), 1);
  return static_cast<int64_t>((bytes + longest - 1) / longest);
}

size_t Tokenizer::longest_token() const {
  // No composition of characters (NFC) has less than a third of their bytes: 9 of Hangul are 3.
  const Vocabulary& vocabulary = *state_->vocabulary;
  return vocabulary.longest_piece * (vocabulary.data.nfc ? 3 : 1);
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
