#include "server/openai/chat_reply.h"

namespace ringkeep::openai {
namespace {

class ChatChoice : public ChoiceShape {
 public:
  ChatChoice(const ChoiceOptions& options, const ChatPlan& plan)
      : options_(options),
        one_call_(plan.one_call),
        parser_(plan.format, {.tools = plan.tools,
                              .in_reasoning = plan.in_reasoning,
                              .control_marks = plan.control_marks,
                              .show_control = plan.show_control}) {}

  Json opening() override {
    Json choice = chunk({{"role", "assistant"}, {"content", ""}});
    if (options_.token_ids) choice["prompt_token_ids"] = options_.prompt_tokens;
    return choice;
  }

  Json delta(const Piece& piece) override {
    sampled_.insert(sampled_.end(), piece.logprobs.begin(), piece.logprobs.end());
    tokens_.insert(tokens_.end(), piece.tokens.begin(), piece.tokens.end());
    return told(parser_.push(piece.text));
  }

  std::vector<Json> closing(const Ending& ending) override {
    std::vector<Json> chunks;
    Json rest = finish(ending);
    if (rest.is_null() && (!sampled_.empty() || (options_.token_ids && !tokens_.empty())))
      rest = with_tokens(chunk({{"content", ""}}));
    if (!rest.is_null()) chunks.push_back(std::move(rest));
    Json choice = chunk(Json::object());
    choice["finish_reason"] = reason_;
    chunks.push_back(std::move(choice));
    return chunks;
  }

  Json whole(const Ending& ending) override {
    finish(ending);
    Json message = {{"role", "assistant"},
                    {"content", calls_.empty() || !content_.empty() ? Json(content_) : Json()},
                    {"refusal", nullptr}};
    if (!reasoning_.empty()) message["reasoning_content"] = reasoning_;
    if (!calls_.empty()) message["tool_calls"] = calls_;
    Json choice = {{"index", options_.index},
                   {"message", std::move(message)},
                   {"logprobs", nullptr},
                   {"finish_reason", reason_}};
    choice = with_tokens(std::move(choice));
    if (options_.token_ids) choice["prompt_token_ids"] = options_.prompt_tokens;
    return choice;
  }

 private:
  // A streamed chunk of what was read, or null when there is nothing to tell yet.
  Json told(prompt::ReplyDelta read) {
    if (one_call_) std::erase_if(read.tool_calls, [](const auto& call) { return call.index > 0; });
    if (read.empty()) return nullptr;
    content_ += options_.stream ? "" : read.content;
    reasoning_ += options_.stream ? "" : read.reasoning;
    Json delta = Json::object();
    if (!read.content.empty()) delta["content"] = read.content;
    if (!read.reasoning.empty()) delta["reasoning_content"] = read.reasoning;
    for (const prompt::ToolCallDelta& call : read.tool_calls) {
      Json entry = {{"index", call.index}};
      if (!call.id.empty()) {
        entry["id"] = call.id;
        entry["type"] = "function";
      }
      Json function = Json::object();
      if (!call.name.empty()) function["name"] = call.name;
      function["arguments"] = call.arguments;
      entry["function"] = std::move(function);
      delta["tool_calls"].push_back(std::move(entry));
      collect(call);
    }
    return options_.stream ? with_tokens(chunk(std::move(delta))) : Json();
  }

  void collect(const prompt::ToolCallDelta& call) {
    while (calls_.size() <= static_cast<size_t>(call.index))
      calls_.push_back(
          {{"id", ""}, {"type", "function"}, {"function", {{"name", ""}, {"arguments", ""}}}});
    Json& entry = calls_[static_cast<size_t>(call.index)];
    Json& function = entry["function"];
    entry["id"].get_ref<std::string&>() += call.id;
    function["name"].get_ref<std::string&>() += call.name;
    function["arguments"].get_ref<std::string&>() += call.arguments;
  }

  // Adds the tokens since the last chunk: the text that they gave is in this one or before it.
  Json with_tokens(Json choice) {
    if (options_.logprobs && (!sampled_.empty() || !options_.stream))
      choice["logprobs"] = chat_logprobs(sampled_, *options_.tokenizer);
    if (options_.token_ids) choice["token_ids"] = tokens_;
    sampled_.clear();
    tokens_.clear();
    return choice;
  }

  // What the parser still held. Calls that were cut short are no calls to make.
  Json finish(const Ending& ending) {
    const bool cut = ending.finish != "stop" || (ending.stop_string && parser_.within_marks());
    Json rest = told(parser_.finish(cut));
    reason_ = !cut && !calls_.empty() ? "tool_calls" : ending.finish;
    return rest;
  }

  Json chunk(Json delta) const {
    return {{"index", options_.index},
            {"delta", std::move(delta)},
            {"logprobs", nullptr},
            {"finish_reason", nullptr}};
  }

  const ChoiceOptions options_;
  const bool one_call_;
  prompt::ReplyParser parser_;
  std::string content_, reasoning_;  // not streamed
  Json calls_ = Json::array();
  std::string reason_;
  std::vector<engine::Sampled> sampled_;
  std::vector<int32_t> tokens_;
};

}  // namespace

std::unique_ptr<ChoiceShape> make_chat_choice(const ChoiceOptions& options, const ChatPlan& plan) {
  return std::make_unique<ChatChoice>(options, plan);
}

}  // namespace ringkeep::openai
