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

}  // namespace
}  // namespace ringkeep::prompt
