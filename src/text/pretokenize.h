// Splits a text into the pre-tokens inside which byte-level BPE merges.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ringkeep::text {

// Patterns (as in tokenizer.json, see pattern_dialect.h) in order, each splitting the pieces that
// the one before left: a match is a piece of its own, and so is the text between two matches
// (Hugging Face's Split with behaviour "isolated").
class PreTokenizer {
 public:
  // Errors (input): a pattern that does not compile, with the place and the reason.
  static Result<PreTokenizer> create(const std::vector<std::string>& patterns);
  PreTokenizer(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Appends the pieces of `text`, which must be well-formed UTF-8. Where a pattern exceeds the
  // limits of the matcher, what it has not reached yet stays one piece. Character classes are
  // those of PCRE2's Unicode version (14 in 10.42): later characters count as unassigned.
  void split(std::string_view text, std::vector<std::string_view>& out) const;

 private:
  PreTokenizer();
  struct State;
  std::unique_ptr<State> state_;
};

// The patterns behind a pre-tokenizer's name in a GGUF file (tokenizer.ggml.pre). Errors (input):
// unknown name, with the known ones.
Result<std::vector<std::string>> named_patterns(const std::string& name);

}  // namespace ringkeep::text
