// Tool calls as a model family writes them, held to the tools' parameters.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/tool_arguments.h"

namespace ringkeep::grammar {

// begin call (separator call)* end,   call: call_begin NAME name_end ARGUMENTS call_end
struct ToolCallFormat {
  std::string begin, separator, end;
  std::string call_begin, name_end, call_end;
  // Marks within these strings that may be control tokens of the tokenizer, or plain text.
  std::vector<std::string> marks;
  // What makes free text a call: a beginning of `begin call_begin`. Empty: the mark they begin
  // with, or else all of them.
  std::string trigger;
  ArgumentFormat arguments;  // the mark of strings may be one of `marks`
};

struct Tool {
  std::string name;
  nlohmann::ordered_json parameters;  // a JSON schema; null: an object of any kind
};

struct ToolCallOptions {
  bool required = true;  // false: free text, held to the format only once a call begins
  bool parallel = true;  // more than one call
  std::vector<std::string> free_controls;  // control tokens that free text may hold
  Grammar::JsonOptions json;
};

// Errors (usage): no tools, a schema that is refused (named by its tool), a name that is no text.
Result<GrammarPtr> tool_calls(const ToolCallFormat& format, std::span<const Tool> tools,
                              const ToolCallOptions& options);

// How a model marks its reasoning; the marks may be control tokens.
struct ReasoningFormat {
  std::string open, close;
  bool opened = false;  // the prompt ended within the reasoning
};
// Reasoning of any kind first (if it is not opened: or none), then what the grammar asks.
Result<GrammarPtr> after_reasoning(const ReasoningFormat& format, const GrammarPtr& grammar);

}  // namespace ringkeep::grammar
