#include "server/openai/reply.h"

#include <algorithm>
#include <random>

#include "text/stream_decoder.h"
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

// Bytes as they are shown: whole characters, and one U+FFFD for each part that is none.
std::string shown(const std::string& bytes) {
  text::StreamDecoder decoder;
  std::string text = decoder.push(bytes);
  return text + decoder.finish();
}

// Where tokens begin in the text that is shown, in characters.
class TextPlace {
 public:
  explicit TextPlace(int64_t characters = 0) : count_(characters) {}

  // Of the next token: the character that its first byte is part of, whichever token began it.
  int64_t next(std::string_view bytes) {
    const size_t before = tail_.size();
    tail_ += bytes;
    int64_t place = -1;
    size_t at = 0;
    while (at < tail_.size()) {
      const text::Utf8Step step = text::utf8_step(std::string_view(tail_).substr(at));
      if (place < 0 && at + step.size > before) place = count_;
      if (step.kind == text::Utf8Step::Kind::incomplete) break;
      ++count_;
      at += step.size;
    }
    tail_.erase(0, at);
    return place < 0 ? count_ : place;
  }

 private:
  int64_t count_;     // whole characters so far
  std::string tail_;  // bytes of one that is not finished
};

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
  void add_all(const std::vector<engine::Sampled>& tokens, bool control, TextPlace& place) {
    for (const engine::Sampled& token : tokens)
      add(token, place.next(tokenizer_.bytes(token.token, control)));
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
      : options_(options), echo_(shown(options.echo)), text_(echo_), place_(characters(echo_)) {}

  void set_prompt_logprobs(const std::vector<engine::Sampled>& sampled) override {
    prompt_ = sampled;
  }

  Json opening() override {
    if (options_.echo.empty() && !options_.token_ids) return nullptr;
    if (options_.echo_logprobs && !prompt_) return nullptr;
    Json choice = entry(echo_);
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
      logprobs.add_all(piece.logprobs, options_.control, place_);
      choice["logprobs"] = logprobs.take();
    }
    if (options_.token_ids) choice["token_ids"] = piece.tokens;
    return choice;
  }

  std::vector<Json> closing(const Ending& ending) override {
    Json choice = entry("");
    choice["finish_reason"] = ending.finish;
    return {choice};
  }

  Json whole(const Ending& ending) override {
    Json choice = entry(text_);
    choice["finish_reason"] = ending.finish;
    if (options_.logprobs) {
      CompletionLogprobs logprobs(*options_.tokenizer);
      if (options_.echo_logprobs) add_prompt(logprobs);
      logprobs.add_all(sampled_, options_.control, place_);
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
    std::vector<std::string> spelled;
    size_t before = 0;  // bytes
    for (const int32_t token : tokens) {
      spelled.push_back(options_.tokenizer->bytes(token, options_.echo_control));
      before += spelled.back().size();
    }
    before -= std::min(before, options_.echo.size());
    TextPlace place;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool known = i > 0 && prompt_ && i <= prompt_->size();
      const size_t outside = std::min(before, spelled[i].size());
      before -= outside;
      logprobs.add(known ? (*prompt_)[i - 1] : engine::Sampled{.token = tokens[i]},
                   place.next(std::string_view(spelled[i]).substr(outside)), known);
    }
  }

  const ChoiceOptions options_;
  const std::string echo_;  // as it is shown
  std::string text_;
  std::optional<std::vector<engine::Sampled>> prompt_;
  std::vector<engine::Sampled> sampled_;
  std::vector<int32_t> tokens_;
  TextPlace place_;
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
