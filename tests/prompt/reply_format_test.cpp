#include "prompt/reply_format.h"

#include <gtest/gtest.h>

namespace ringkeep::prompt {
namespace {

struct Found {
  const char* source;
  ToolFormat tools;
  ReasoningFormat reasoning;
};

// Lines of the templates that the models are published with.
constexpr Found kTemplates[] = {
    {"{{ bos_token }}<start_of_turn>user\n", ToolFormat::none, ReasoningFormat::none},
    {R"(within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>)",
     ToolFormat::hermes, ReasoningFormat::none},
    {R"({{- '\n<tool_call>\n{"name": "' }}...{%- if '</think>' in content %})", ToolFormat::hermes,
     ReasoningFormat::think},
    {R"(ONLY reply in the following format:\n\n<tool_call>\n<function=example_function_name>\n)",
     ToolFormat::qwen3_coder, ReasoningFormat::none},
    {R"({{- "<|python_tag|>" + tool_call.name + ".call(" }})", ToolFormat::llama3_json,
     ReasoningFormat::none},
    {R"({{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }})", ToolFormat::llama3_json,
     ReasoningFormat::none},
    {R"({{- "[TOOL_CALLS] [" }})", ToolFormat::mistral, ReasoningFormat::none},
    {R"({{- "[TOOL_CALLS]" + name + "[ARGS]" }}[THINK])", ToolFormat::mistral_args,
     ReasoningFormat::mistral},
    {"{{- '<start_function_call>call:' }}", ToolFormat::functiongemma, ReasoningFormat::none},
    {"'<|tool_call>call:' '}<tool_call|>' '<|channel>thought\\n<channel|>'", ToolFormat::gemma4,
     ReasoningFormat::gemma4},
    {"'<｜tool▁calls▁begin｜>' '```json' '</think>'", ToolFormat::deepseek_v3,
     ReasoningFormat::think},
    {"'<｜tool▁calls▁begin｜>' '</think>'", ToolFormat::deepseek_v31, ReasoningFormat::think},
};

TEST(ReplyFormat, IsFoundInTheTemplate) {
  for (const Found& found : kTemplates) {
    const ReplyFormat format = detect_reply_format(found.source);
    EXPECT_EQ(format.tools, found.tools) << found.source;
    EXPECT_EQ(format.reasoning, found.reasoning) << found.source;
  }
}

TEST(ReplyFormat, NamesGoBothWays) {
  for (const Found& found : kTemplates) {
    EXPECT_EQ(tool_format_by_name(tool_format_name(found.tools)).value(), found.tools);
    EXPECT_EQ(reasoning_format_by_name(reasoning_format_name(found.reasoning)).value(),
              found.reasoning);
  }
  EXPECT_EQ(reasoning_format_by_name("deepseek_r1").value(), ReasoningFormat::think);
  const auto unknown = tool_format_by_name("pythonic");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::usage);
  EXPECT_NE(unknown.error().message.find("hermes"), std::string::npos);
}

TEST(ReplyFormat, APromptMayOpenTheReasoning) {
  const auto opens = prompt_opens_reasoning;
  EXPECT_TRUE(opens(ReasoningFormat::think, "<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(opens(ReasoningFormat::think, "<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(opens(ReasoningFormat::think, "<|im_start|>assistant\n"));
  EXPECT_FALSE(opens(ReasoningFormat::none, "<think>\n"));
  EXPECT_TRUE(opens(ReasoningFormat::gemma4, "<|turn>model\n<|channel>thought\n"));
  EXPECT_FALSE(opens(ReasoningFormat::gemma4, "<|turn>model\n<|channel>thought\n<channel|>"));
  EXPECT_FALSE(opens(ReasoningFormat::think, ""));
}

}  // namespace
}  // namespace ringkeep::prompt
