#include "server/openai/chat_plan.h"

#include <algorithm>

#include "grammar/tool_arguments.h"
#include "text/stream_decoder.h"

namespace ringkeep::openai {
namespace {

using grammar::Grammar;
using grammar::GrammarPtr;

// The name that tool_choice asks for, or one of none, auto, required.
struct Choice {
  enum class Kind { none, automatic, required } kind = Kind::automatic;
  std::string name;  // of the one function that must be called
};

std::optional<ApiError> read_choice(const ChatFields& fields, Choice& choice) {
  const Json& value = fields.tool_choice;
  const bool tools = !fields.shown.tools.is_null();
  if (value.is_null()) {
    choice.kind = tools ? Choice::Kind::automatic : Choice::Kind::none;
    return std::nullopt;
  }
  if (value == "none") {
    choice.kind = Choice::Kind::none;
    return std::nullopt;
  }
  if (!tools) return bad_field("tool_choice", "tool_choice: there are no tools to choose from");
  if (value == "auto") return std::nullopt;
  choice.kind = Choice::Kind::required;
  if (value == "required") return std::nullopt;
  const bool named = value.is_object() && value.contains("type") && value["type"] == "function" &&
                     value.contains("function") && value["function"].is_object() &&
                     value["function"].contains("name") && value["function"]["name"].is_string();
  if (!named)
    return bad_field("tool_choice",
                     fmt::format("tool_choice: expected none, auto, required or {{\"type\": "
                                 "\"function\", \"function\": {{\"name\": ...}}}}, found {}",
                                 describe(value)));
  choice.name = value["function"]["name"].get<std::string>();
  const bool known = std::ranges::any_of(fields.shown.tools, [&](const Json& tool) {
    return tool["function"]["name"] == choice.name;
  });
  if (!known)
    return bad_field(
        "tool_choice.function.name",
        fmt::format("tool_choice.function.name: no tool is called \"{}\"", choice.name));
  return std::nullopt;
}

bool is_control(const text::Tokenizer& tokenizer, const std::string& mark) {
  const int32_t id = tokenizer.id_of(mark);
  return id >= 0 && tokenizer.is_control(id);
}

// Builds grammars of replies. A mark that is a control token stands in them as that token.
class ReplyGrammar {
 public:
  ReplyGrammar(const text::Tokenizer& tokenizer, const prompt::ReplyFormat& format)
      : tokenizer_(tokenizer), format_(format) {
    for (const std::string& mark : prompt::reply_marks(format, true))
      if (is_control(tokenizer, mark)) controls_.push_back(mark);
  }

  Result<GrammarPtr> spelled(std::string_view text) const {
    std::vector<GrammarPtr> parts;
    while (!text.empty()) {
      size_t at = text.size();
      const std::string* mark = nullptr;
      for (const std::string& each : controls_)
        if (const size_t found = text.find(each); found < at) {
          at = found;
          mark = &each;
        }
      if (at > 0) parts.push_back(Grammar::literal(text.substr(0, at)));
      if (mark == nullptr) break;
      parts.push_back(Grammar::control(*mark));
      text.remove_prefix(at + mark->size());
    }
    if (parts.empty()) parts.push_back(Grammar::literal(""));
    return Grammar::sequence(parts);
  }

  grammar::ArgumentFormat argument_format(const prompt::CallGrammar& shape) const {
    using Arguments = prompt::CallGrammar::Arguments;
    using Kind = grammar::ArgumentFormat::Kind;
    return {.kind = shape.arguments == Arguments::json     ? Kind::json
                    : shape.arguments == Arguments::marked ? Kind::marked
                                                           : Kind::xml,
            .string_mark = shape.string_mark,
            .mark_control = is_control(tokenizer_, shape.string_mark),
            .parameter_begin = shape.parameter_begin,
            .parameter_name_end = shape.parameter_name_end,
            .parameter_end = shape.parameter_end};
  }

  // One call of one of the tools (`only`: of that name), or several.
  Result<GrammarPtr> calls(const Json& tools, const std::string& only, bool several) const {
    const prompt::CallGrammar shape = prompt::call_grammar(format_.tools);
    std::vector<GrammarPtr> each;
    for (const Json& tool : tools) {
      const Json& function = tool["function"];
      const std::string& name = function["name"].get_ref<const std::string&>();
      if (!only.empty() && name != only) continue;
      const Json schema = function.contains("parameters") ? function["parameters"] : Json();
      RK_TRY(check_schema(schema));
      const GrammarPtr arguments = RK_TRY(grammar::tool_arguments(schema, argument_format(shape)));
      const GrammarPtr parts[] = {RK_TRY(spelled(shape.call_begin + name + shape.name_end)),
                                  arguments, RK_TRY(spelled(shape.call_end))};
      each.push_back(RK_TRY(Grammar::sequence(parts)));
    }
    const GrammarPtr call = RK_TRY(Grammar::any_of(each));
    std::vector<GrammarPtr> all = {RK_TRY(spelled(shape.begin)), call};
    if (several) {
      const GrammarPtr more[] = {RK_TRY(spelled(shape.separator)), call};
      all.push_back(RK_TRY(Grammar::repeat(RK_TRY(Grammar::sequence(more)), 0, kMostCalls - 1)));
    }
    all.push_back(RK_TRY(spelled(shape.end)));
    return Grammar::sequence(all);
  }

  // An answer that is no call.
  Result<GrammarPtr> answer(const GrammarPtr& text) const {
    const prompt::ReasoningMarks marks = prompt::reasoning_marks(format_);
    if (marks.answer.empty()) return text;
    const GrammarPtr parts[] = {RK_TRY(spelled(marks.answer)), text};
    return Grammar::sequence(parts);
  }

  // `then` after the reasoning, which may be there (or is, and is open already).
  Result<GrammarPtr> after_reasoning(const GrammarPtr& then, bool open) const {
    const prompt::ReasoningMarks marks = prompt::reasoning_marks(format_);
    if (marks.close.empty()) return then;
    if (!marks.next.empty()) return after_messages(then, marks, open);
    const GrammarPtr space = RK_TRY(Grammar::from_regex("[ \\n]{0,4}"));
    const GrammarPtr answer[] = {space, then};
    Grammar::FreeText thoughts{.once = true, .may_end = false};
    thoughts.triggers.push_back({.text = marks.close,
                                 .control = is_control(tokenizer_, marks.close),
                                 .then = RK_TRY(Grammar::sequence(answer))});
    const GrammarPtr thinking = RK_TRY(Grammar::free_text(thoughts));
    if (open) return thinking;
    const GrammarPtr with[] = {RK_TRY(spelled(marks.open)), thinking};
    const GrammarPtr either[] = {then, RK_TRY(Grammar::sequence(with))};
    return Grammar::any_of(either);
  }

  // `then` after any number of messages of reasoning.
  Result<GrammarPtr> after_messages(const GrammarPtr& then, const prompt::ReasoningMarks& marks,
                                    bool open) const {
    Grammar::FreeText thoughts{.once = true, .may_end = false};
    thoughts.triggers.push_back({.text = marks.close,
                                 .control = is_control(tokenizer_, marks.close),
                                 .then = RK_TRY(spelled(marks.next))});
    const GrammarPtr thinking = RK_TRY(Grammar::free_text(thoughts));
    const GrammarPtr message[] = {RK_TRY(spelled(marks.open)), thinking};
    const GrammarPtr all[] = {
        open ? thinking : Grammar::literal(""),
        RK_TRY(Grammar::repeat(RK_TRY(Grammar::sequence(message)), 0, UINT32_MAX)), then};
    return Grammar::sequence(all);
  }

  static constexpr uint32_t kMostCalls = 16;

 private:
  const text::Tokenizer& tokenizer_;
  const prompt::ReplyFormat format_;
  std::vector<std::string> controls_;
};

}  // namespace

std::optional<ApiError> check_tools(const Model& model, const TemplateFields& shown) {
  if (shown.tools.is_null() || model.template_source.find("tools") != std::string::npos)
    return std::nullopt;
  return bad_field("tools", "tools: the chat template of this model does not take tools",
                   "unsupported_parameter");
}

std::optional<ApiError> plan_tools(const Model& model, const ChatFields& fields, ChatPlan& plan) {
  plan.format = model.reply_format;
  Choice choice;
  if (auto error = read_choice(fields, choice)) return error;
  if (choice.kind == Choice::Kind::none || fields.shown.tools.is_null()) {
    // Channels are there without tools, too.
    if (!plan.format.has_channels()) plan.format.tools = prompt::ToolFormat::none;
    return std::nullopt;
  }
  if (auto error = check_tools(model, fields.shown)) return error;
  if (plan.format.tools == prompt::ToolFormat::none)
    return bad_field("tools",
                     "tools: how this model writes its calls is not known: start the server with "
                     "--tool-call-parser",
                     "unsupported_parameter");
  plan.tools = fields.shown.tools;
  return std::nullopt;
}

std::optional<ApiError> plan_reply(const Model& model, const ChatFields& fields,
                                   const std::string& prompt, ChatPlan& plan) {
  const text::Tokenizer& tokenizer = *model.tokenizer;
  const bool tools = !plan.tools.is_null();
  plan.in_reasoning = prompt::prompt_opens_reasoning(plan.format, prompt);
  for (std::string& mark : prompt::reply_marks(plan.format, tools))
    if (is_control(tokenizer, mark)) plan.control_marks.push_back(std::move(mark));
  plan.show_control = !fields.skip_special_tokens;
  for (const std::string& text : prompt::reply_stop_strings(plan.format, tools))
    plan.stop.push_back(is_control(tokenizer, text) ? text::marked_control(text)
                                                    : prompt::as_written(text, plan.control_marks));
  for (const std::string& mark : prompt::reply_stop_tokens(plan.format))
    if (is_control(tokenizer, mark)) plan.stop_tokens.push_back(tokenizer.id_of(mark));

  Choice choice;
  read_choice(fields, choice);
  const bool required = tools && choice.kind == Choice::Kind::required;
  const bool rule = fields.rule.kind != OutputRule::Kind::none;
  if (!required && !rule) {
    plan.one_call = tools && !fields.parallel_tool_calls;
    return std::nullopt;
  }
  if (required && rule)
    return bad_field(fields.rule.param,
                     fields.rule.param + ": a reply cannot be this and a tool call",
                     "unsupported_value");
  const ReplyGrammar builder(tokenizer, plan.format);
  const Json key = {static_cast<int>(fields.rule.kind),
                    fields.rule.schema,
                    fields.rule.text,
                    fields.rule.choices,
                    plan.tools,
                    fields.tool_choice,
                    fields.parallel_tool_calls,
                    plan.in_reasoning};
  auto matcher = model.constraints->matcher(dump(key), [&]() -> Result<GrammarPtr> {
    std::vector<GrammarPtr> replies;
    if (tools)
      replies.push_back(RK_TRY(builder.calls(plan.tools, choice.name, fields.parallel_tool_calls)));
    if (rule) replies.push_back(RK_TRY(builder.answer(RK_TRY(rule_grammar(fields.rule)))));
    return builder.after_reasoning(RK_TRY(Grammar::any_of(replies)), plan.in_reasoning);
  });
  if (!matcher.ok()) {
    const std::string param = rule ? fields.rule.param : "tools";
    return bad_field(param, param + ": " + matcher.error().message);
  }
  plan.constraint = *matcher;
  return std::nullopt;
}

}  // namespace ringkeep::openai
