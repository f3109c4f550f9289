#include "prompt/reply_format.h"

#include <array>
#include <utility>

namespace ringkeep::prompt {
namespace {

using Source = std::string_view;

constexpr std::array<std::pair<ToolFormat, const char*>, 12> kToolNames = {{
    {ToolFormat::none, "none"},
    {ToolFormat::hermes, "hermes"},
    {ToolFormat::qwen3_coder, "qwen3_coder"},
    {ToolFormat::llama3_json, "llama3_json"},
    {ToolFormat::mistral, "mistral"},
    {ToolFormat::mistral_args, "mistral_args"},
    {ToolFormat::functiongemma, "functiongemma"},
    {ToolFormat::gemma4, "gemma4"},
    {ToolFormat::deepseek_v3, "deepseek_v3"},
    {ToolFormat::deepseek_v31, "deepseek_v31"},
    {ToolFormat::harmony, "harmony"},
    {ToolFormat::harmony, "openai"},
}};
constexpr std::array<std::pair<ReasoningFormat, const char*>, 8> kReasoningNames = {{
    {ReasoningFormat::none, "none"},
    {ReasoningFormat::think, "think"},
    {ReasoningFormat::mistral, "mistral"},
    {ReasoningFormat::gemma4, "gemma4"},
    {ReasoningFormat::harmony, "harmony"},
    {ReasoningFormat::think, "deepseek_r1"},
    {ReasoningFormat::think, "qwen3"},
    {ReasoningFormat::harmony, "openai_gptoss"},
}};

template <typename Names>
auto by_name(const Names& names, std::string_view name, const char* what)
    -> Result<typename Names::value_type::first_type> {
  std::string all;
  for (const auto& [value, spelled] : names) {
    if (name == spelled) return value;
    all += (all.empty() ? "" : ", ") + std::string(spelled);
  }
  return make_error(ErrorKind::usage, "{}: expected one of {}, found \"{}\"", what, all, name);
}

template <typename Names, typename Value>
const char* name_of(const Names& names, Value value) {
  for (const auto& [known, spelled] : names) {
    if (known == value) return spelled;
  }
  return "";
}

bool has(Source source, std::string_view mark) { return source.find(mark) != Source::npos; }

bool is_harmony(Source s) {
  return has(s, "<|start|>") && has(s, "<|channel|>") && has(s, "<|message|>");
}

ToolFormat detect_tools(Source s) {
  if (is_harmony(s)) return ToolFormat::harmony;
  if (has(s, "<|tool_call>") && has(s, "<tool_call|>")) return ToolFormat::gemma4;
  if (has(s, "<start_function_call>")) return ToolFormat::functiongemma;
  if (has(s, "<｜tool▁calls▁begin｜>")) {
    return has(s, "```json") ? ToolFormat::deepseek_v3 : ToolFormat::deepseek_v31;
  }
  if (has(s, "[TOOL_CALLS]")) {
    return has(s, "[ARGS]") ? ToolFormat::mistral_args : ToolFormat::mistral;
  }
  if (has(s, "<tool_call>")) {
    return has(s, "<function=") ? ToolFormat::qwen3_coder : ToolFormat::hermes;
  }
  if (has(s, "<|python_tag|>") || (has(s, "<|start_header_id|>") && has(s, "ipython"))) {
    return ToolFormat::llama3_json;
  }
  return ToolFormat::none;
}

ReasoningFormat detect_reasoning(Source s) {
  if (is_harmony(s)) return ReasoningFormat::harmony;
  if (has(s, "<|channel>") && has(s, "<channel|>")) return ReasoningFormat::gemma4;
  if (has(s, "[THINK]")) return ReasoningFormat::mistral;
  if (has(s, "<think>") || has(s, "</think>")) return ReasoningFormat::think;
  return ReasoningFormat::none;
}

}  // namespace

ReplyFormat detect_reply_format(std::string_view template_source) {
  return {detect_tools(template_source), detect_reasoning(template_source)};
}

Status check_reply_format(const ReplyFormat& format) {
  const bool tools = format.tools == ToolFormat::none || format.tools == ToolFormat::harmony;
  const bool reasoning =
      format.reasoning == ReasoningFormat::none || format.reasoning == ReasoningFormat::harmony;
  if (!format.has_channels() || (tools && reasoning)) return {};
  return make_error(ErrorKind::usage,
                    "reply format: expected harmony with harmony or none, found tool format {} "
                    "with reasoning format {}",
                    tool_format_name(format.tools), reasoning_format_name(format.reasoning));
}

Result<ToolFormat> tool_format_by_name(std::string_view name) {
  return by_name(kToolNames, name, "tool format");
}
Result<ReasoningFormat> reasoning_format_by_name(std::string_view name) {
  return by_name(kReasoningNames, name, "reasoning format");
}
const char* tool_format_name(ToolFormat format) { return name_of(kToolNames, format); }
const char* reasoning_format_name(ReasoningFormat format) {
  return name_of(kReasoningNames, format);
}

ReasoningMarks reasoning_marks(ReasoningFormat format) {
  switch (format) {
    case ReasoningFormat::none: return {};
    case ReasoningFormat::think: return {"<think>", "</think>"};
    case ReasoningFormat::mistral: return {"[THINK]", "[/THINK]"};
    case ReasoningFormat::gemma4: return {"<|channel>thought", "<channel|>"};
    case ReasoningFormat::harmony:
      return {"<|channel|>analysis<|message|>", "<|end|>", "<|start|>assistant",
              "<|channel|>final<|message|>"};
  }
  return {};
}

ReasoningMarks reasoning_marks(const ReplyFormat& format) {
  return reasoning_marks(format.has_channels() ? ReasoningFormat::harmony : format.reasoning);
}

bool prompt_opens_reasoning(const ReplyFormat& format, std::string_view prompt) {
  const std::string open = reasoning_marks(format).open;
  const size_t last = prompt.find_last_not_of(" \t\r\n");
  return !open.empty() && last != std::string_view::npos &&
         prompt.substr(0, last + 1).ends_with(open);
}

std::vector<std::string> reply_marks(const ReplyFormat& format, bool tools) {
  if (format.has_channels())
    return {"<|start|>",     "<|end|>",  "<|message|>", "<|channel|>",
            "<|constrain|>", "<|call|>", "<|return|>"};
  std::vector<std::string> marks;
  switch (format.reasoning) {
    case ReasoningFormat::none:
    case ReasoningFormat::harmony: break;
    case ReasoningFormat::think: marks = {"<think>", "</think>"}; break;
    case ReasoningFormat::mistral: marks = {"[THINK]", "[/THINK]"}; break;
    case ReasoningFormat::gemma4: marks = {"<|channel>", "<channel|>"}; break;
  }
  if (!tools) return marks;
  std::vector<std::string> more;
  switch (format.tools) {
    case ToolFormat::none:
    case ToolFormat::harmony: break;
    case ToolFormat::hermes:
    case ToolFormat::qwen3_coder: more = {"<tool_call>", "</tool_call>"}; break;
    case ToolFormat::llama3_json: more = {"<|python_tag|>"}; break;
    case ToolFormat::mistral: more = {"[TOOL_CALLS]"}; break;
    case ToolFormat::mistral_args: more = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}; break;
    case ToolFormat::functiongemma:
      more = {"<start_function_call>", "<end_function_call>", "<escape>"};
      break;
    case ToolFormat::gemma4: more = {"<|tool_call>", "<tool_call|>", "<|\"|>"}; break;
    case ToolFormat::deepseek_v3:
    case ToolFormat::deepseek_v31:
      more = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
              "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};
      break;
  }
  marks.insert(marks.end(), more.begin(), more.end());
  return marks;
}

std::vector<std::string> reply_stop_strings(const ReplyFormat& format, bool tools) {
  if (tools && format.tools == ToolFormat::functiongemma) return {"<start_function_response>"};
  if (tools && format.tools == ToolFormat::gemma4) return {"<|tool_response>"};
  if (format.has_channels())
    return {"<|start|>user", "<|start|>system", "<|start|>developer", "<|start|>functions."};
  return {};
}

std::vector<std::string> reply_stop_tokens(const ReplyFormat& format) {
  if (format.has_channels()) return {"<|return|>", "<|call|>"};
  return {};
}

CallGrammar call_grammar(ToolFormat format) {
  using Arguments = CallGrammar::Arguments;
  CallGrammar g;
  switch (format) {
    case ToolFormat::none: break;
    case ToolFormat::hermes:
      g.call_begin = "<tool_call>\n{\"name\": \"";
      g.name_end = "\", \"arguments\": ";
      g.call_end = "}\n</tool_call>";
      g.separator = "\n";
      return g;
    case ToolFormat::qwen3_coder:
      g.call_begin = "<tool_call>\n<function=";
      g.name_end = ">\n";
      g.arguments = Arguments::xml;
      g.parameter_begin = "<parameter=";
      g.parameter_name_end = ">\n";
      g.parameter_end = "\n</parameter>\n";
      g.call_end = "</function>\n</tool_call>";
      g.separator = "\n";
      return g;
    case ToolFormat::llama3_json:
      g.call_begin = "{\"name\": \"";
      g.name_end = "\", \"parameters\": ";
      g.call_end = "}";
      g.separator = "; ";
      return g;
    case ToolFormat::mistral:
      g.begin = "[TOOL_CALLS][";
      g.call_begin = "{\"name\": \"";
      g.name_end = "\", \"arguments\": ";
      g.call_end = "}";
      g.separator = ", ";
      g.end = "]";
      return g;
    case ToolFormat::mistral_args:
      g.call_begin = "[TOOL_CALLS]";
      g.name_end = "[ARGS]";
      return g;
    case ToolFormat::functiongemma:
      g.call_begin = "<start_function_call>call:";
      g.call_end = "<end_function_call>";
      g.arguments = Arguments::marked;
      g.string_mark = "<escape>";
      return g;
    case ToolFormat::gemma4:
      g.call_begin = "<|tool_call>call:";
      g.call_end = "<tool_call|>";
      g.arguments = Arguments::marked;
      g.string_mark = "<|\"|>";
      return g;
    case ToolFormat::deepseek_v3:
      g.begin = "<｜tool▁calls▁begin｜>";
      g.call_begin = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>";
      g.name_end = "\n```json\n";
      g.call_end = "\n```<｜tool▁call▁end｜>";
      g.separator = "\n";
      g.end = "<｜tool▁calls▁end｜>";
      return g;
    case ToolFormat::deepseek_v31:
      g.begin = "<｜tool▁calls▁begin｜>";
      g.call_begin = "<｜tool▁call▁begin｜>";
      g.name_end = "<｜tool▁sep｜>";
      g.call_end = "<｜tool▁call▁end｜>";
      g.end = "<｜tool▁calls▁end｜>";
      return g;
    case ToolFormat::harmony:  // <|call|> ends the reply behind the last one
      g.call_begin = "<|channel|>commentary to=functions.";
      g.name_end = " <|constrain|>json<|message|>";
      g.separator = "<|end|><|start|>assistant";
      return g;
  }
  RK_CHECK(false, "a reply format without tool calls has no grammar");
  return g;
}

}  // namespace ringkeep::prompt
