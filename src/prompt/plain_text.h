// Text of a chat stays text: what a message spells is never a control token, so that nobody who may
// write one can end a turn or begin another. The template sees each such text with a noncharacter
// of Unicode within it; where the rendered text shows one, it is taken out and its place is kept
// for the tokenizer. A chat that spells no control token is rendered and encoded as it is.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace ringkeep::prompt {

class PlainText {
 public:
  // Marks the strings of a template's variables, apart from those that are named as tokens
  // ("bos_token"). In what an assistant said the marks of its reasoning are left, since templates
  // look for them. Errors (usage): the variables hold every noncharacter.
  static Result<PlainText> mark(const text::Tokenizer& tokenizer, std::string_view template_source,
                                nlohmann::ordered_json& variables);
  // Takes the marks out of what was rendered, and returns the offsets of the bytes they stood
  // before (Tokenizer::EncodeOptions::plain).
  std::vector<size_t> unmark(std::string& text) const;

 private:
  std::string mark_;     // empty: nothing was marked
  std::string escaped_;  // the same where a template writes JSON in ASCII
};

}  // namespace ringkeep::prompt
