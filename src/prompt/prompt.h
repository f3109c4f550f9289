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
  std::string text;  // that was encoded
};

struct ChatOptions {
  nlohmann::ordered_json tools;  // an array of JSON schemas, or null
  bool add_generation_prompt = true;
  nlohmann::ordered_json
      variables;  // further ones for the template (enable_thinking, ...), or null
};

// `messages`: an array of objects with role, content (a string, null, or parts {type, text}) and
// what else the template reads (tool_calls, ...), in OpenAI's form. The template writes the control
// tokens, BOS included, so nothing is added to its text; text in a message that spells a control
// token becomes that token, as it does in every engine that renders before it encodes.
// Errors (usage): no messages, a message of another shape, an image for this text-only path (both
// name the message and the part), an error of the template, an empty prompt.
Result<Prompt> build_chat_prompt(const text::Tokenizer& tokenizer,
                                 const text::ChatTemplate& chat_template,
                                 const nlohmann::ordered_json& messages,
                                 const ChatOptions& options = {});

// Plain text. BOS is added where the model wants one, never a second one. Errors (usage): empty.
Result<Prompt> build_completion_prompt(const text::Tokenizer& tokenizer, const std::string& text);

}  // namespace ringkeep::prompt
