// What a chat's reply may be, and how it is read: structured output, tool calls and reasoning
// together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "prompt/reply_parser.h"
#include "server/openai/app.h"
#include "server/openai/constraints.h"

namespace ringkeep::openai {

struct ChatPlan {
  prompt::ReplyFormat format;
  Json tools;                 // that the template shows and whose calls are read; or null
  bool in_reasoning = false;  // the prompt ends within a thinking block
  std::vector<std::string> control_marks;  // marks of the reply that are control tokens
  bool show_control = false;               // and others are text
  std::vector<std::string> stop;           // beside the request's
  std::vector<int32_t> stop_tokens;
  bool one_call = false;      // further calls of the reply are not told
  MatcherPointer constraint;  // null: none
};

// Whether the template shows the tools.
std::optional<ApiError> check_tools(const Model& model, const TemplateFields& shown);
// Before the prompt is rendered: which tools it shows. Errors name the field.
std::optional<ApiError> plan_tools(const Model& model, const ChatFields& fields, ChatPlan& plan);
// After it: `prompt` is its text.
std::optional<ApiError> plan_reply(const Model& model, const ChatFields& fields,
                                   const std::string& prompt, ChatPlan& plan);

}  // namespace ringkeep::openai
