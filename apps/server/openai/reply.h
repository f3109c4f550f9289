// The shapes of answers: what a run of choices becomes in JSON.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/sampling.h"
#include "server/openai/json.h"
#include "text/tokenizer.h"

namespace ringkeep::openai {

// A piece of a choice, or all of it.
struct Piece {
  std::string text;
  std::vector<engine::Sampled> logprobs;  // of its tokens, when asked for
  std::vector<int32_t> tokens;
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
};
Json usage_json(const Usage& usage);

// What all objects of an answer say.
struct ReplyHead {
  std::string id;
  int64_t created = 0;
  std::string model;
  std::string fingerprint;
};
std::string random_id(const std::string& prefix);  // "chatcmpl-" and 24 random characters

// How a choice ended: "stop" or "length", and whether it was one of the request's stop strings.
struct Ending {
  std::string finish;
  bool stop_string = false;
};

// One choice's way into JSON, piece by piece. Each function gives members of `choices` entries.
class ChoiceShape {
 public:
  virtual ~ChoiceShape() = default;
  // Of the tokens after the prompt's first, for a reply that begins with its prompt; the opening
  // waits for them.
  virtual void set_prompt_logprobs(const std::vector<engine::Sampled>&) {}
  // Streamed: what comes before the first piece, of a piece (both may be null: nothing to send),
  // of the end.
  virtual Json opening() = 0;
  virtual Json delta(const Piece& piece) = 0;
  virtual std::vector<Json> closing(const Ending& ending) = 0;
  // Whole: all pieces that went through delta(), and the end.
  virtual Json whole(const Ending& ending) = 0;
};

struct ChoiceOptions {
  int64_t index = 0;
  bool stream = false;
  bool logprobs = false;
  bool token_ids = false;
  bool control = false;  // completions: control tokens are part of the text
  const text::Tokenizer* tokenizer = nullptr;
  std::string echo;                    // completions: the prompt's text, its bytes as they are
  bool echo_control = false;           // and whether its control tokens are part of it
  bool echo_logprobs = false;          // and logprobs tell of its tokens
  std::vector<int32_t> prompt_tokens;  // when token_ids or echo with logprobs
};
std::unique_ptr<ChoiceShape> make_completion_choice(const ChoiceOptions& options);

// Token strings and log-probabilities.
Json chat_logprobs(const std::vector<engine::Sampled>& sampled, const text::Tokenizer& tokenizer);

}  // namespace ringkeep::openai
