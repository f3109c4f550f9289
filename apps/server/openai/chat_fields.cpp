// Fields of /v1/chat/completions.
#include "server/openai/request.h"

namespace ringkeep::openai {
namespace {

void read_template_variables(Fields& fields, const std::string& param, const Json& value,
                             Json& variables) {
  if (!value.is_object())
    return fields.fail(param, fmt::format("expected an object, found {}", describe(value)));
  if (!within(fields, param, value.size(), kMaxTemplateVariables, "variables")) return;
  for (const auto& [name, item] : value.items()) {
    if (name == "messages" || name == "tools" || name == "add_generation_prompt")
      return fields.fail(param + "." + name, "it is a field of its own");
    variables[name] = item;
  }
}

}  // namespace

void visit_template(Fields& fields, TemplateFields& shown) {
  fields.other(
      {"chat_template_kwargs"}, {{"type", "object"}},
      [&](const Json& value) {
        read_template_variables(fields, "chat_template_kwargs", value, shown.variables);
      },
      "Further variables for the chat template, such as enable_thinking.");
  fields.other(
      {"documents"}, {{"type", "array"}, {"items", {{"type", "object"}}}},
      [&](const Json& value) {
        if (!value.is_array())
          return fields.fail("documents",
                             fmt::format("expected an array, found {}", describe(value)));
        if (!within(fields, "documents", value.size(), kMaxDocuments, "documents")) return;
        for (size_t i = 0; i < value.size(); ++i)
          if (!value[i].is_object())
            return fields.fail(fmt::format("documents[{}]", i),
                               fmt::format("expected an object, found {}", describe(value[i])));
        shown.variables["documents"] = value;
      },
      "For chat templates that read documents.");
  std::string effort;
  fields.text({"reasoning_effort"}, effort, "For chat templates that read it.");
  if (!effort.empty()) shown.variables["reasoning_effort"] = effort;
  fields.boolean({"add_generation_prompt"}, shown.add_generation_prompt,
                 "false: the prompt ends with the last message.");
  visit_tools(fields, shown.tools);
}

void visit(Fields& fields, ChatFields& request, const Defaults& defaults) {
  visit_messages(fields, request.messages);
  request.max_tokens = defaults.chat_max_tokens;
  visit_max_tokens(fields, {"max_completion_tokens", "max_tokens"}, request.max_tokens);
  visit_common(fields, request, defaults);

  bool logprobs = false;
  int64_t top_logprobs = -1;
  fields.boolean({"logprobs"}, logprobs, "Add the log-probabilities of the reply's tokens.");
  fields.integer({"top_logprobs"}, top_logprobs, 0, kMaxTopLogprobs,
                 "And so many of the likeliest ones; needs logprobs.");
  if (top_logprobs > 0 && !logprobs) fields.fail("top_logprobs", "it needs \"logprobs\": true");
  if (logprobs) request.top_logprobs = static_cast<int>(std::max<int64_t>(top_logprobs, 0));

  visit_template(fields, request.shown);
  fields.other(
      {"tool_choice"},
      {{"oneOf",
        {{{"type", "string"}, {"enum", {"none", "auto", "required"}}}, {{"type", "object"}}}}},
      [&](const Json& value) { request.tool_choice = value; },
      "none, auto, required, or one function.");
  fields.boolean({"parallel_tool_calls"}, request.parallel_tool_calls,
                 "false: at most one call in a reply.");
  fields.boolean({"parse_special"}, request.parse_special,
                 "true: control tokens that are spelled in messages become those tokens.");
  visit_output_rule(fields, request.rule, /*response_format=*/true);

  fields.without_effect({"verbosity"});
  fields.only("modalities", {Json::array({"text"})}, "only text is supported");
  fields.only("continue_final_message", {false}, "it is not supported");
  fields.only("echo", {false}, "it is not supported on chats");
  fields.only("add_special_tokens", {false}, "the chat template writes the control tokens");
  fields.only("include_reasoning", {true}, "reasoning is always told, in reasoning_content");
  fields.only("reasoning_format", {"auto", "deepseek"},
              "reasoning is in reasoning_content, unless the server has --reasoning-parser none");
  fields.refused({"n_probs"}, "use logprobs and top_logprobs");
  fields.refused({"functions", "function_call"}, "use tools and tool_choice");
  fields.refused({"audio", "web_search_options", "mm_processor_kwargs"},
                 "it is not supported by this server");
  fields.refused({"chat_template"},
                 "the server's chat template is used: start it with --chat-template");
  fields.refused({"best_of", "suffix", "prompt"}, "it belongs to /v1/completions");
}

}  // namespace ringkeep::openai
