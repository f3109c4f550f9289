// What of a reply a reader of the terminal gets: of models that write messages in channels the
// answer, of all others the text as it comes.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "cli/generate.h"
#include "prompt/reply_parser.h"
#include "text/chat_template.h"

namespace ringkeep::cli {

class ReplyView {
 public:
  // `chat_template`: that the prompt was rendered with, or null. Has `request` show and end with
  // the marks of the reply.
  ReplyView(const text::ChatTemplate* chat_template, const std::string& prompt,
            const text::Tokenizer& tokenizer, engine::Request& request);

  // A piece of the reply: its answer goes to stdout if `print`, its reasoning to stderr.
  Status push(const std::string& text, bool print);
  // The reply is over: the rest, and in `generation` the answer in place of the whole text.
  Status finish(Generation& generation, bool print);

 private:
  Status show(const prompt::ReplyDelta& delta, bool print);

  std::optional<prompt::ReplyParser> parser_;
  std::string reasoning_, answer_;
};

}  // namespace ringkeep::cli
