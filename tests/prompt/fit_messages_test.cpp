// Messages of OpenAI's form as the harmony template reads them.
#include "prompt/fit_messages.h"

#include <gtest/gtest.h>

#include <string>

namespace ringkeep::prompt {
namespace {

using Json = nlohmann::ordered_json;

const std::string kHarmony = "{{ '<|start|>' '<|channel|>' '<|message|>' }}";

Json call(const char* id, const char* name) {
  return {{"id", id},
          {"type", "function"},
          {"function", {{"name", name}, {"arguments", Json::object()}}}};
}
Json result(const char* id, const char* text) {
  return {{"role", "tool"}, {"tool_call_id", id}, {"content", text}};
}

TEST(FitMessages, OtherTemplatesGetThemAsTheyAre) {
  const Json messages = {{{"role", "assistant"},
                          {"content", nullptr},
                          {"reasoning_content", "a"},
                          {"tool_calls", {call("1", "f"), call("2", "g")}}}};
  EXPECT_EQ(fit_messages("{{ '<think>' }}", messages), messages);
  const Json tools = {{{"function", {{"name", "f"}}}}};
  EXPECT_EQ(fit_tools("", tools), tools);
}

TEST(FitMessages, ReasoningIsThinking) {
  const Json messages = {{{"role", "user"}, {"content", "Hi"}},
                         {{"role", "assistant"}, {"content", "So."}, {"reasoning_content", "Why?"}},
                         {{"role", "assistant"},
                          {"content", "Plan."},
                          {"reasoning_content", "Hm."},
                          {"tool_calls", {call("1", "f")}}},
                         result("1", "3"),
                         {{"role", "assistant"}, {"content", "x"}, {"tool_calls", Json::array()}}};
  const Json fitted = {
      {{"role", "user"}, {"content", "Hi"}},
      {{"role", "assistant"}, {"content", "So."}, {"thinking", "Why?"}},
      {{"role", "assistant"}, {"tool_calls", {call("1", "f")}}, {"thinking", "Hm.\nPlan."}},
      result("1", "3"),
      {{"role", "assistant"}, {"content", "x"}}};
  EXPECT_EQ(fit_messages(kHarmony, messages), fitted);
}

TEST(FitMessages, ACallWithoutContent) {
  const Json messages = {
      {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call("1", "f")}}}};
  const Json fitted = {{{"role", "assistant"}, {"tool_calls", {call("1", "f")}}}};
  EXPECT_EQ(fit_messages(kHarmony, messages), fitted);
}

TEST(FitMessages, EachCallHasItsResult) {
  const auto calls = [](const Json& list) {
    return Json{{"role", "assistant"}, {"tool_calls", list}};
  };
  Json several = calls(Json::array({call("1", "f"), call("2", "g")}));
  several["reasoning_content"] = "Both.";
  Json first = calls(Json::array({call("1", "f")}));
  first["thinking"] = "Both.";
  const Json second = calls(Json::array({call("2", "g")}));
  const Json user = {{"role", "user"}, {"content", "So?"}};
  EXPECT_EQ(fit_messages(kHarmony, {several, result("2", "b"), result("1", "a"), user}),
            Json({first, result("1", "a"), second, result("2", "b"), user}));
  // Results without ids are in the order of the calls; what is too much is the last one's.
  const Json plain = {{"role", "tool"}, {"content", "r"}};
  EXPECT_EQ(fit_messages(kHarmony, {several, plain, plain, plain}),
            Json({first, plain, second, plain, plain}));
  EXPECT_EQ(fit_messages(kHarmony, Json::array({several})), Json({first, second}));
}

TEST(FitMessages, ToolsHaveADescription) {
  const Json tools = {{{"function", {{"name", "f"}, {"description", nullptr}}}},
                      {{"function", {{"name", "g"}, {"description", "Does."}}}},
                      {{"function", {{"name", "h"}}}}};
  const Json fitted = fit_tools(kHarmony, tools);
  EXPECT_EQ(fitted[0]["function"]["description"], "");
  EXPECT_EQ(fitted[1], tools[1]);
  EXPECT_EQ(fitted[2]["function"]["description"], "");
  EXPECT_TRUE(fit_tools(kHarmony, nullptr).is_null());
}

}  // namespace
}  // namespace ringkeep::prompt
