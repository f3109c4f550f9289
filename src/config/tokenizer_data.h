// A tokenizer as plain data: filled by checkpoint/ from GGUF metadata or tokenizer.json.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ringkeep {

enum class TokenType : uint8_t {
  normal,
  unknown,
  control,       // special: never produced from plain text unless specials are parsed
  user_defined,  // added token that is matched in plain text
  unused,
  byte,  // <0xNN> byte fallback
};

struct TokenizerData {
  enum class Kind {
    none,      // the checkpoint has no tokenizer (`note` says why)
    spm_bpe,   // SentencePiece-style BPE: merges by score (or by `merges` rank when given),
               // space written U+2581, byte fallback
    byte_bpe,  // byte-level BPE (GPT-2 byte alphabet already undone: pieces are raw bytes)
  };
  Kind kind = Kind::none;
  std::string note;

  std::vector<std::string> pieces;  // [vocab] id -> raw bytes. spm_bpe: U+2581 still in place;
                                    // byte tokens hold their text "<0xNN>"
  std::vector<float> scores;        // [vocab] spm_bpe without merges; else empty
  std::vector<TokenType> types;     // [vocab]
  std::vector<std::pair<std::string, std::string>> merges;  // by rank, raw bytes of both halves

  std::string pre;                        // byte_bpe: pre-tokenizer name ("llama-bpe", "qwen2",
                                          // "gpt-4o", "default", ...) when `pre_patterns` is empty
  std::vector<std::string> pre_patterns;  // byte_bpe: PCRE2 split patterns, applied in order
  bool ignore_merges = false;     // byte_bpe: a whole pre-token that is a token needs no merges
  bool nfc = false;               // normalise the text to NFC first
  bool add_space_prefix = false;  // spm_bpe: put U+2581 before the text
  bool byte_fallback = true;      // spm_bpe
  bool split_digits = false;      // byte_bpe: each digit its own pre-token

  bool add_bos = false;
  bool add_eos = false;
  int32_t bos = -1, eos = -1, unk = -1, pad = -1;
  std::vector<int32_t> end_of_generation;  // every id that ends a reply (eos, <end_of_turn>, ...)

  std::string chat_template;  // Jinja source, or empty
};

}  // namespace ringkeep
