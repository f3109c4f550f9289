// How the replies of a model are written: the marks around its reasoning and its tool calls. Found
// from the source of the chat template, or given by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ringkeep::prompt {

// Sources: the chat templates that the models are published with, and
// https://ai.google.dev/gemma/docs (functiongemma/formatting-and-best-practices,
// core/prompt-formatting-gemma4), and OpenAI's guide to the harmony format (harmony,
// docs/format.md). Names are those of vLLM's --tool-call-parser where it has one.
enum class ToolFormat {
  none,
  hermes,         // <tool_call>{"name": N, "arguments": {..}}</tool_call>; Qwen 2.5 and 3, SmolLM 3
  qwen3_coder,    // <tool_call><function=N><parameter=K>V</parameter></function></tool_call>
  llama3_json,    // {"name": N, "parameters": {..}}, alone or after <|python_tag|>
  mistral,        // [TOOL_CALLS][{"name": N, "arguments": {..}}]
  mistral_args,   // [TOOL_CALLS]N[ARGS]{..}; Mistral Small 3.2, Ministral 3, Magistral
  functiongemma,  // <start_function_call>call:N{k:<escape>v<escape>}<end_function_call>
  gemma4,         // <|tool_call>call:N{k:<|"|>v<|"|>}<tool_call|>
  deepseek_v3,    // ..function<｜tool▁sep｜>N, then {..} in a json code block; V3, R1 and its
                  // distills
  deepseek_v31,   // ..N<｜tool▁sep｜>{..}
  harmony,        // a message <|channel|>commentary to=functions.N..<|message|>{..}; GPT-OSS
};

enum class ReasoningFormat {
  none,
  think,    // <think>..</think>; Qwen 3, DeepSeek R1, SmolLM 3
  mistral,  // [THINK]..[/THINK]; Magistral, Ministral 3
  gemma4,   // <|channel>thought..<channel|>
  harmony,  // messages <|channel|>analysis<|message|>..<|end|>; GPT-OSS
};

struct ReplyFormat {
  ToolFormat tools = ToolFormat::none;
  ReasoningFormat reasoning = ReasoningFormat::none;
  // Harmony: the reply is a row of messages, each with a header that says what it is.
  bool has_channels() const {
    return tools == ToolFormat::harmony || reasoning == ReasoningFormat::harmony;
  }
};
// Harmony reads a whole reply, so it cannot be mixed with another format. Errors (usage).
Status check_reply_format(const ReplyFormat& format);

// What the template's source tells: `none` where it has no marks that are known.
ReplyFormat detect_reply_format(std::string_view template_source);

// By the names above (`think` also as deepseek_r1 and qwen3, harmony also as openai and
// openai_gptoss). Errors (usage): names those there are.
Result<ToolFormat> tool_format_by_name(std::string_view name);
Result<ReasoningFormat> reasoning_format_by_name(std::string_view name);
const char* tool_format_name(ToolFormat format);
const char* reasoning_format_name(ReasoningFormat format);

struct ReasoningMarks {
  std::string open, close;  // both empty: no reasoning
  // With channels there may be more than one block of reasoning.
  std::string next;    // comes between a block and what follows it
  std::string answer;  // begins an answer that is no call
};
ReasoningMarks reasoning_marks(ReasoningFormat format);
ReasoningMarks reasoning_marks(const ReplyFormat& format);

// Whether a rendered prompt ends within a thinking block that the template opened, so that the
// reply begins with reasoning and shows only its end.
bool prompt_opens_reasoning(const ReplyFormat& format, std::string_view prompt);

// The marks of a reply. Where some of them are control tokens of the tokenizer, the text must have
// control tokens marked and ReplyOptions::control_marks name them, or the parser never sees them.
std::vector<std::string> reply_marks(const ReplyFormat& format, bool tools);

// Strings that end a reply beside the tokens that end generation: where a model goes on to write
// the answer of the tool by itself.
std::vector<std::string> reply_stop_strings(const ReplyFormat& format, bool tools);
// Control tokens that end a reply, whatever the tokenizer's file says of them.
std::vector<std::string> reply_stop_tokens(const ReplyFormat& format);

// What a grammar for `tool_choice: required` writes:
//   begin call (separator call)* end,   call: call_begin NAME name_end ARGUMENTS call_end
// NAME is one of the tools, spelled as in the JSON string that surrounds it, if any.
struct CallGrammar {
  enum class Arguments {
    json,    // a JSON object of the tool's parameters
    marked,  // {key:value,..}: bare keys, strings between two `string_mark`, else as in JSON
    xml,     // (parameter_begin KEY parameter_name_end VALUE parameter_end)*: strings as they are,
             // other values as JSON
  };
  std::string begin, separator, end;
  std::string call_begin, name_end, call_end;
  Arguments arguments = Arguments::json;
  std::string string_mark;
  std::string parameter_begin, parameter_name_end, parameter_end;
};
// `format` is not none.
CallGrammar call_grammar(ToolFormat format);

}  // namespace ringkeep::prompt
