// Chat templates for `run`, and the conversation on a terminal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/output.h"
#include "config/tokenizer_data.h"
#include "engine/engine.h"
#include "text/chat_template.h"

namespace ringkeep::cli {

// Source of the template that --chat-template names, by file or by name; empty without the flag.
// Errors (input): no such file or name, unreadable or empty file.
Result<std::string> chat_template_source(const std::string& flag);

// The template that the flag names, or the model's own without the flag; nothing when there is
// neither. Errors (input): as above, template that does not parse.
Result<std::optional<text::ChatTemplate>> load_chat_template(const TokenizerData& data,
                                                             const std::string& flag);

// The messages that a conversation begins with: the system message, or none.
Json first_messages(const std::string& system);

// Reads lines from the terminal until end of file. With `chat_template` null every line is
// completed as plain text, each on its own. `base` holds what every request has in common. Returns
// the tokens of the last prompt and its reply.
Result<std::vector<int32_t>> chat(engine::Engine& engine, const text::ChatTemplate* chat_template,
                                  const std::string& system, engine::Request base);

}  // namespace ringkeep::cli
