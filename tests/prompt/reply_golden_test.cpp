// Against mlx-lm's parsers (tools/make_reply_goldens.py).
#include <gtest/gtest.h>

#include <fstream>

#include "prompt/reply_fixture.h"

namespace ringkeep::prompt {
namespace {

using Json = nlohmann::ordered_json;

TEST(ReplyGolden, CallsAreReadAsMlxLmReadsThem) {
  std::ifstream file(std::string(RK_SOURCE_DIR) + "/tests/golden/replies/calls.json");
  ASSERT_TRUE(file);
  const Json golden = Json::parse(file);
  ASSERT_GT(golden["cases"].size(), 15u);
  for (const Json& one : golden["cases"]) {
    const std::string text = one["text"];
    SCOPED_TRACE(text);
    const ReplyFormat format{tool_format_by_name(one["format"].get<std::string>()).value(),
                             ReasoningFormat::none};
    const Reply reply = parse_pieces(format, {text}, {.tools = golden["tools"]});
    EXPECT_EQ(reply.content, "");
    ASSERT_EQ(reply.calls.size(), one["calls"].size());
    for (size_t i = 0; i < reply.calls.size(); ++i) {
      EXPECT_EQ(reply.calls[i].name, one["calls"][i]["name"]);
      EXPECT_EQ(nlohmann::json::parse(reply.calls[i].arguments, nullptr, false),
                nlohmann::json(one["calls"][i]["arguments"]));
    }
  }
}

// What a row of messages is in OpenAI's terms (reply_parser.h).
Reply expected(const Json& messages) {
  Reply reply;
  const auto add = [](std::string& to, const std::string& text) {
    if (text.empty()) return;
    to += (to.empty() ? "" : "\n") + text;
  };
  for (const Json& message : messages) {
    const std::string to = message.value("recipient", ""), text = message["text"];
    if (to.starts_with("functions."))
      reply.calls.push_back({.name = to.substr(10), .arguments = text.empty() ? "{}" : text});
    else
      add(message.value("channel", "") == "analysis" ? reply.reasoning : reply.content, text);
  }
  return reply;
}

TEST(ReplyGolden, MessagesAreReadAsOpenAisHarmonyReadsThem) {
  std::ifstream file(std::string(RK_SOURCE_DIR) + "/tests/golden/replies/harmony.json");
  ASSERT_TRUE(file);
  const Json golden = Json::parse(file);
  ASSERT_GT(golden["cases"].size(), 15u);
  const ReplyFormat format{ToolFormat::harmony, ReasoningFormat::harmony};
  std::mt19937 random(5);
  for (const Json& one : golden["cases"]) {
    const std::string text = one["text"];
    SCOPED_TRACE(text);
    const Reply want = expected(one["messages"]);
    // With the token that ended the reply, and without it, as the engine has it.
    std::string shown = text;
    for (const char* end : {"<|return|>", "<|call|>"})
      if (text.ends_with(end)) shown.resize(text.size() - std::string_view(end).size());
    for (const std::string& reply : {text, shown}) {
      Reply read = parse_pieces(format, {reply}, {.tools = test_tools()});
      EXPECT_EQ(parse_pieces(format, cut(reply, 1, random), {.tools = test_tools()}), read);
      for (Call& call : read.calls) call.id.clear();
      EXPECT_EQ(read, want);
    }
  }
}

}  // namespace
}  // namespace ringkeep::prompt
