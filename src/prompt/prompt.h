// Messages or text to the tokens of a prompt: the one path of the command line and the server.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ringkeep::prompt {

struct Prompt {
  std::vector<int32_t> tokens;
  std::string text;           // that was encoded
  std::vector<size_t> plain;  // bytes of it that are text whatever they spell
};

struct ChatOptions {
  nlohmann::ordered_json tools;  // an array of JSON schemas, or null
  bool add_generation_prompt = true;
  nlohmann::ordered_json
      variables;  // further ones for the template (enable_thinking, ...), or null
  // Control tokens that are spelled in messages, tools or variables become those tokens. Otherwise
  // only what the template writes does, and they stay text (plain_text.h).
  bool parse_special = false;
  int64_t context = 0;  // most tokens; 0: any number
};

// `messages`: an array of objects with role, content (a string, null, or parts {type, text}) and
// what else the template reads (tool_calls, ...), in OpenAI's form. The template writes the control
// tokens, BOS included, so nothing is added to its text.
// Errors (usage): no messages, a message of another shape, an image for this text-only path (both
// name the message and the part), an error of the template, an empty prompt; (input): a text that
// is too long for `context` whatever its tokens are.
Result<Prompt> build_chat_prompt(const text::Tokenizer& tokenizer,
                                 const text::ChatTemplate& chat_template,
                                 const nlohmann::ordered_json& messages,
                                 const ChatOptions& options = {});

// Plain text. BOS is added where the model wants one, never a second one. Errors (usage): empty;
// (input) as above.
Result<Prompt> build_completion_prompt(const text::Tokenizer& tokenizer, const std::string& text,
                                       int64_t context = 0);

// Whether a text of so many bytes may have at most `context` tokens (0: any number), without
// encoding it, which takes long for a long one. Errors (input): with the numbers.
Status check_text_size(const text::Tokenizer& tokenizer, size_t bytes, int64_t context);

}  // namespace ringkeep::prompt
