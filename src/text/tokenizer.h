// Text to token ids and back.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/tokenizer_data.h"

namespace ringkeep::text {

class Tokenizer {
 public:
  // Errors (input): inconsistent sizes, ids outside the vocabulary, patterns that do not compile,
  // merges that make no token.
  static Result<std::unique_ptr<Tokenizer>> create(TokenizerData data);
  ~Tokenizer();

  struct EncodeOptions {
    bool add_special = true;    // BOS / EOS as the model wants; never a second BOS
    bool parse_special = true;  // control tokens written in the text become their ids
    // Offsets of bytes, ascending, that are text whatever they spell with others: no control token
    // that holds one of them is read. See control_marks().
    std::span<const size_t> plain = {};
  };
  // Invalid UTF-8: every bad byte goes through byte fallback as it is (byte-level: as it is).
  // `text`: at most 1 GiB. Tokens written in the text are found leftmost first, the longest of
  // those that begin at the same byte.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const;
  std::vector<int32_t> encode(std::string_view text) const { return encode(text, EncodeOptions{}); }
  // Offsets of characters in `text`, ascending: once they are `plain`, no control token is read
  // that is spelled in it, or that begins in it and ends in what follows. `except`: control tokens
  // that may be. Empty for text that spells none.
  std::vector<size_t> control_marks(std::string_view text,
                                    std::span<const int32_t> except = {}) const;
  // So many tokens at least encode a text of `bytes` bytes; 0 where its size says nothing (a
  // vocabulary that leaves bytes out).
  int64_t fewest_tokens(size_t bytes) const;
  size_t longest_token() const;  // bytes of text

  // The bytes that a token adds to the text (control tokens: nothing unless `special`; ids beyond
  // the vocabulary, which models with more embedding rows than tokens can sample: nothing).
  std::string bytes(int32_t id, bool special = false) const;
  // The text of many tokens, as the reference implementation decodes them (the first piece's
  // prefix space of SentencePiece models removed). Without parsed specials decode(encode(x)) is x
  // for any bytes, but for: NFC; U+2581, which comes back as a space; the prefix space after an
  // added token; and characters that have neither a piece nor byte tokens.
  std::string decode(std::span<const int32_t> ids, bool special = false) const;

  // The id of a piece exactly as the vocabulary has it, or -1.
  int32_t id_of(std::string_view piece) const;
  std::string_view piece(int32_t id) const;
  bool is_control(int32_t id) const;
  bool ends_generation(int32_t id) const;  // beyond the vocabulary: no
  int64_t size() const;
  const TokenizerData& data() const;  // without its pieces and merges

 private:
  Tokenizer();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringkeep::text
