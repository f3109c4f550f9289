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
    {R"({{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }})",
     ToolFormat::harmony, ReasoningFormat::harmony},
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
  EXPECT_EQ(tool_format_by_name("openai").value(), ToolFormat::harmony);
  EXPECT_EQ(reasoning_format_by_name("openai_gptoss").value(), ReasoningFormat::harmony);
  const auto unknown = tool_format_by_name("pythonic");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::usage);
  EXPECT_NE(unknown.error().message.find("hermes"), std::string::npos);
}

TEST(ReplyFormat, ChannelsAreReadAloneOrNotAtAll) {
  using TF = ToolFormat;
  using RF = ReasoningFormat;
  for (const ReplyFormat good : {ReplyFormat{TF::harmony, RF::harmony},
                                 {TF::harmony, RF::none},
                                 {TF::none, RF::harmony},
                                 {TF::hermes, RF::think}})
    EXPECT_TRUE(check_reply_format(good).ok());
  for (const ReplyFormat bad : {ReplyFormat{TF::harmony, RF::think}, {TF::hermes, RF::harmony}}) {
    const Status status = check_reply_format(bad);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::usage);
    EXPECT_NE(status.error().message.find(tool_format_name(bad.tools)), std::string::npos);
  }
}

TEST(ReplyFormat, APromptMayOpenTheReasoning) {
  const auto opens = [](ReasoningFormat reasoning, std::string_view prompt) {
    return prompt_opens_reasoning({.reasoning = reasoning}, prompt);
  };
  EXPECT_TRUE(opens(ReasoningFormat::think, "<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(opens(ReasoningFormat::think, "<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(opens(ReasoningFormat::think, "<|im_start|>assistant\n"));
  EXPECT_FALSE(opens(ReasoningFormat::none, "<think>\n"));
  EXPECT_TRUE(opens(ReasoningFormat::gemma4, "<|turn>model\n<|channel>thought\n"));
  EXPECT_FALSE(opens(ReasoningFormat::gemma4, "<|turn>model\n<|channel>thought\n<channel|>"));
  EXPECT_FALSE(opens(ReasoningFormat::think, ""));
  const std::string turn = "<|start|>user<|message|>Hi<|end|><|start|>assistant";
  EXPECT_TRUE(opens(ReasoningFormat::harmony, turn + "<|channel|>analysis<|message|>"));
  EXPECT_FALSE(opens(ReasoningFormat::harmony, turn + "<|channel|>final<|message|>"));
  EXPECT_FALSE(opens(ReasoningFormat::harmony, turn));
  EXPECT_TRUE(prompt_opens_reasoning({.tools = ToolFormat::harmony},
                                     turn + "<|channel|>analysis<|message|>"));
}

}  // namespace
}  // namespace ringkeep::prompt
