#include "server/openai/chat_reply.h"

namespace ringkeep::openai {
namespace {

class ChatChoice : public ChoiceShape {
 public:
  explicit ChatChoice(const ChoiceOptions& options) : options_(options) {}

  Json opening() override {
    Json choice = chunk({{"role", "assistant"}, {"content", ""}});
    if (options_.token_ids) choice["prompt_token_ids"] = options_.prompt_tokens;
    return choice;
  }

  Json delta(const Piece& piece) override {
    if (!options_.stream) {
      content_ += piece.text;
      sampled_.insert(sampled_.end(), piece.logprobs.begin(), piece.logprobs.end());
      tokens_.insert(tokens_.end(), piece.tokens.begin(), piece.tokens.end());
      return nullptr;
    }
    Json choice = chunk({{"content", piece.text}});
    if (options_.logprobs && !piece.logprobs.empty())
      choice["logprobs"] = chat_logprobs(piece.logprobs, *options_.tokenizer);
    if (options_.token_ids) choice["token_ids"] = piece.tokens;
    return choice;
  }

  std::vector<Json> closing(const std::string& finish) override {
    Json choice = chunk(Json::object());
    choice["finish_reason"] = finish;
    return {choice};
  }

  Json whole(const std::string& finish) override {
    Json message = {{"role", "assistant"}, {"content", content_}, {"refusal", nullptr}};
    Json choice = {{"index", options_.index},
                   {"message", std::move(message)},
                   {"logprobs", nullptr},
                   {"finish_reason", finish}};
    if (options_.logprobs) choice["logprobs"] = chat_logprobs(sampled_, *options_.tokenizer);
    if (options_.token_ids) {
      choice["token_ids"] = tokens_;
      choice["prompt_token_ids"] = options_.prompt_tokens;
    }
    return choice;
  }

 private:
  Json chunk(Json delta) const {
    return {{"index", options_.index},
            {"delta", std::move(delta)},
            {"logprobs", nullptr},
            {"finish_reason", nullptr}};
  }

  const ChoiceOptions options_;
  std::string content_;
  std::vector<engine::Sampled> sampled_;
  std::vector<int32_t> tokens_;
};

}  // namespace

std::unique_ptr<ChoiceShape> make_chat_choice(const ChoiceOptions& options) {
  return std::make_unique<ChatChoice>(options);
}

}  // namespace ringkeep::openai
