#include "prompt/fit_messages.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "prompt/reply_format.h"

namespace ringkeep::prompt {
namespace {

using Json = nlohmann::ordered_json;

bool is_harmony(std::string_view template_source) {
  return detect_reply_format(template_source).has_channels();
}

std::string take_text(Json& message, const char* name) {
  const auto found = message.find(name);
  if (found == message.end() || !(found->is_string() || found->is_null())) return "";
  std::string text = found->is_string() ? found->get<std::string>() : "";
  message.erase(found);
  return text;
}

void fit_assistant(Json& message) {
  const auto calls = message.find("tool_calls");
  if (calls != message.end() && (!calls->is_array() || calls->empty())) message.erase(calls);
  const bool call = message.contains("tool_calls");
  std::string thinking = take_text(message, "reasoning_content");
  if (thinking.empty()) thinking = take_text(message, "thinking");
  if (call) {
    const std::string content = take_text(message, "content");
    if (!thinking.empty() && !content.empty()) thinking += '\n';
    thinking += content;
  }
  if (!thinking.empty()) message["thinking"] = std::move(thinking);
}

bool answers(const Json& result, const Json& call) {
  const auto id = result.find("tool_call_id"), called = call.find("id");
  return id != result.end() && called != call.end() && *id == *called;
}

// One message for each call, and behind it its results: those with its id, or else, for the call of
// the same place, one without the id of any.
void add_calls(const Json& message, const Json& messages, size_t& at, Json& out) {
  const Json& calls = message["tool_calls"];
  const size_t first = at;
  while (at < messages.size() && messages[at]["role"] == "tool") ++at;
  std::vector<size_t> call_of;  // [results] which call it answers
  for (size_t i = first; i < at; ++i) {
    size_t call = 0;
    while (call < calls.size() && !answers(messages[i], calls[call])) ++call;
    call_of.push_back(call < calls.size() ? call : std::min(i - first, calls.size() - 1));
  }
  for (size_t call = 0; call < calls.size(); ++call) {
    Json one = message;
    one["tool_calls"] = Json::array({calls[call]});
    if (call > 0) one.erase("thinking");
    out.push_back(std::move(one));
    for (size_t i = first; i < at; ++i)
      if (call_of[i - first] == call) out.push_back(messages[i]);
  }
}

}  // namespace

Json fit_messages(std::string_view template_source, Json messages) {
  if (!messages.is_array() || !is_harmony(template_source)) return messages;
  Json out = Json::array();
  for (size_t at = 0; at < messages.size();) {
    Json message = std::move(messages[at++]);
    if (message["role"] == "assistant") fit_assistant(message);
    if (message.contains("tool_calls") && message["tool_calls"].size() > 1)
      add_calls(message, messages, at, out);
    else
      out.push_back(std::move(message));
  }
  return out;
}

Json fit_tools(std::string_view template_source, Json tools) {
  if (!tools.is_array() || !is_harmony(template_source)) return tools;
  for (Json& tool : tools) {
    const auto function = tool.find("function");
    if (function == tool.end() || !function->is_object()) continue;
    const auto text = function->find("description");
    if (text == function->end() || text->is_null()) (*function)["description"] = "";
  }
  return tools;
}

}  // namespace ringkeep::prompt
