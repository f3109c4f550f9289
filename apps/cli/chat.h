// Chat templates for `run`, and the conversation on a terminal.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/output.h"
#include "config/tokenizer_data.h"
#include "engine/engine.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ringkeep::cli {

// A chat template with the special tokens that it sees.
class ChatFormat {
 public:
  // The template in `file`, or the model's own when `file` is empty; nothing when there is neither.
  // Errors (input): unreadable file, template that does not parse.
  static Result<std::optional<ChatFormat>> load(const TokenizerData& data, const std::string& file);

  // The tokens of a conversation, ready for the next reply. The template writes BOS itself.
  Result<std::vector<int32_t>> encode(const text::Tokenizer& tokenizer, const Json& messages) const;

 private:
  explicit ChatFormat(text::ChatTemplate source) : template_(std::move(source)) {}
  text::ChatTemplate template_;
};

// Reads lines from the terminal until end of file. With `format` null every line is completed as
// plain text, each on its own. `base` holds what every request has in common.
Result<int> chat(engine::Engine& engine, const ChatFormat* format, const std::string& system,
                 engine::Request base);

}  // namespace ringkeep::cli
