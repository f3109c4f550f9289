#include "server/openai/reply.h"

#include <algorithm>
#include <random>

#include "text/utf8.h"

namespace ringkeep::openai {
namespace {

// JSON has no infinity; so unlikely a token has no log-probability worth the name.
double finite(float logprob) { return std::max(static_cast<double>(logprob), -9999.0); }

Json byte_list(const std::string& bytes) {
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  return list;
}

Json chat_entry(int32_t token, float logprob, const text::Tokenizer& tokenizer) {
  const std::string bytes = tokenizer.bytes(token, /*special=*/true);
  return {{"token", bytes}, {"logprob", finite(logprob)}, {"bytes", byte_list(bytes)}};
}

// OpenAI's way to write bytes that are no text.
std::string printable(const std::string& bytes) {
  if (text::utf8_valid_prefix(bytes) == bytes.size()) return bytes;
  std::string out = "bytes:";
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

int64_t characters(const std::string& text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

// Log-probabilities of completions: lists with an entry for each token.
class CompletionLogprobs {
 public:
  explicit CompletionLogprobs(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // `offset`: characters before it. Without a log-probability (the prompt's first) there is null.
  void add(const engine::Sampled& token, int64_t offset, bool known = true) {
    tokens_.push_back(printable(tokenizer_.bytes(token.token, /*special=*/true)));
    logprobs_.push_back(known ? Json(finite(token.logprob)) : Json());
    Json top = Json::object();
    for (const engine::TokenLogprob& other : token.top)
      top[printable(tokenizer_.bytes(other.token, true))] = finite(other.logprob);
    tops_.push_back(known ? std::move(top) : Json());
    offsets_.push_back(offset);
  }
  // And moves the offset behind it.
  void add_all(const std::vector<engine::Sampled>& tokens, int64_t& offset) {
    for (const engine::Sampled& token : tokens) {
      add(token, offset);
      offset += characters(tokenizer_.bytes(token.token, true));
    }
  }
  Json take() {
    return {{"tokens", std::move(tokens_)},
            {"token_logprobs", std::move(logprobs_)},
            {"top_logprobs", std::move(tops_)},
            {"text_offset", std::move(offsets_)}};
  }

 private:
  const text::Tokenizer& tokenizer_;
  Json tokens_ = Json::array(), logprobs_ = Json::array(), tops_ = Json::array(),
       offsets_ = Json::array();
};

class CompletionChoice : public ChoiceShape {
 public:
  explicit CompletionChoice(const ChoiceOptions& options)
      : options_(options), text_(options.echo), offset_(characters(options.echo)) {}

  void set_prompt_logprobs(const std::vector<engine::Sampled>& sampled) override {
    prompt_ = sampled;
  }

  Json opening() override {
    if (options_.echo.empty() && !options_.token_ids) return nullptr;
    if (options_.echo_logprobs && !prompt_) return nullptr;
    Json choice = entry(options_.echo);
    if (options_.echo_logprobs) {
      CompletionLogprobs logprobs(*options_.tokenizer);
      add_prompt(logprobs);
      choice["logprobs"] = logprobs.take();
    }
    if (options_.token_ids) choice["prompt_token_ids"] = options_.prompt_tokens;
    return choice;
  }

  Json delta(const Piece& piece) override {
    if (!options_.stream) {
      text_ += piece.text;
      sampled_.insert(sampled_.end(), piece.logprobs.begin(), piece.logprobs.end());
      tokens_.insert(tokens_.end(), piece.tokens.begin(), piece.tokens.end());
      return nullptr;
    }
    Json choice = entry(piece.text);
    if (options_.logprobs && !piece.logprobs.empty()) {
      CompletionLogprobs logprobs(*options_.tokenizer);
      logprobs.add_all(piece.logprobs, offset_);
      choice["logprobs"] = logprobs.take();
    }
    if (options_.token_ids) choice["token_ids"] = piece.tokens;
    return choice;
  }

  std::vector<Json> closing(const std::string& finish) override {
    Json choice = entry("");
    choice["finish_reason"] = finish;
    return {choice};
  }

  Json whole(const std::string& finish) override {
    Json choice = entry(text_);
    choice["finish_reason"] = finish;
    if (options_.logprobs) {
      CompletionLogprobs logprobs(*options_.tokenizer);
      if (options_.echo_logprobs) add_prompt(logprobs);
      logprobs.add_all(sampled_, offset_);
      choice["logprobs"] = logprobs.take();
    }
    if (options_.token_ids) {
      choice["token_ids"] = tokens_;
      choice["prompt_token_ids"] = options_.prompt_tokens;
    }
    return choice;
  }

 private:
  Json entry(const std::string& text) const {
    return {{"index", options_.index},
            {"text", text},
            {"logprobs", nullptr},
            {"finish_reason", nullptr}};
  }

  // What tokens spell before the text begins (a BOS, a tokenizer's own first blank) has no width.
  void add_prompt(CompletionLogprobs& logprobs) const {
    const std::vector<int32_t>& tokens = options_.prompt_tokens;
    const auto width = [&](int32_t token) {
      return characters(options_.tokenizer->bytes(token, options_.echo_control));
    };
    int64_t at = characters(options_.echo);
    for (const int32_t token : tokens) at -= width(token);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool known = i > 0 && prompt_ && i <= prompt_->size();
      logprobs.add(known ? (*prompt_)[i - 1] : engine::Sampled{.token = tokens[i]},
                   std::max<int64_t>(at, 0), known);
      at += width(tokens[i]);
    }
  }

  const ChoiceOptions options_;
  std::string text_;
  std::optional<std::vector<engine::Sampled>> prompt_;
  std::vector<engine::Sampled> sampled_;
  std::vector<int32_t> tokens_;
  int64_t offset_;  // characters so far
};

}  // namespace

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

std::string random_id(const std::string& prefix) {
  static constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  static thread_local std::mt19937_64 random(std::random_device{}());
  std::string id = prefix;
  for (int i = 0; i < 24; ++i) id += kAlphabet[random() % kAlphabet.size()];
  return id;
}

Json chat_logprobs(const std::vector<engine::Sampled>& sampled, const text::Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const engine::Sampled& token : sampled) {
    Json entry = chat_entry(token.token, token.logprob, tokenizer);
    Json top = Json::array();
    for (const engine::TokenLogprob& other : token.top)
      top.push_back(chat_entry(other.token, other.logprob, tokenizer));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

std::unique_ptr<ChoiceShape> make_completion_choice(const ChoiceOptions& options) {
  return std::make_unique<CompletionChoice>(options);
}

}  // namespace ringkeep::openai
