// Free text with triggers, tool calls, reasoning before a grammar.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "grammar/tool_calls.h"
#include "grammar/vocabulary.h"

namespace ringkeep::grammar {
namespace {

const char kFF[] = "\xFF";
std::string token(const std::string& name) { return kFF + name + kFF; }

Tool weather() {
  return {
      "get_weather",
      nlohmann::ordered_json::parse(
          R"({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})")};
}
Tool clock_tool() { return {"get_time", nullptr}; }

ToolCallFormat hermes() {
  return {.separator = "\n",
          .call_begin = "<tool_call>\n{\"name\": \"",
          .name_end = "\", \"arguments\": ",
          .call_end = "}\n</tool_call>",
          .marks = {"<tool_call>", "</tool_call>"}};
}
ToolCallFormat mistral() {
  return {.begin = "[TOOL_CALLS][",
          .separator = ", ",
          .end = "]",
          .call_begin = "{\"name\": \"",
          .name_end = "\", \"arguments\": ",
          .call_end = "}",
          .marks = {"[TOOL_CALLS]"}};
}

const std::string kCall =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Köln\"}}\n</tool_call>";
const std::string kTime =
    "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {\"zone\": 1}}\n</tool_call>";

TEST(FreeText, FindsTheFirstTrigger) {
  Grammar::FreeText free;
  free.triggers.push_back({"<<a>", false, Grammar::literal("1")});
  free.triggers.push_back({"b>", false, Grammar::literal("2")});
  free.triggers.push_back({"ab", false, Grammar::literal("3")});
  const auto grammar = Grammar::free_text(free).value();
  for (const char* good :
       {"", "x", "<<a", "<<<a>1", "b>2", "<b>2", "a b>2 <<a>1 ", "xab3", "ab3>", "\xFE\x80"})
    EXPECT_TRUE(accepts(grammar, good)) << good;
  for (const char* bad : {"<<a>", "<<a>2", "<<<a>2", "b>1", "ab>2", "ab", "ab3b>", "\xFF"})
    EXPECT_FALSE(accepts(grammar, bad)) << bad;
  free.once = true;
  EXPECT_FALSE(accepts(Grammar::free_text(free).value(), "b>2x"));
  EXPECT_TRUE(accepts(Grammar::free_text(free).value(), "xb>2"));
  EXPECT_TRUE(accepts(Grammar::free_text(free).value(), "x"));
  free.may_end = false;
  EXPECT_FALSE(accepts(Grammar::free_text(free).value(), "x"));
  free.triggers.push_back({"a", false, Grammar::literal("3")});
  EXPECT_FALSE(Grammar::free_text(free).ok());  // begins "ab"
  free.triggers = {{"", false, Grammar::literal("3")}};
  EXPECT_FALSE(Grammar::free_text(free).ok());
}

// Against a search of the text: a trigger within the end of another one counts as well.
TEST(FreeText, AgreesWithASearch) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::string> triggers;
    Grammar::FreeText free{.once = true, .may_end = false};
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      std::string text;
      for (size_t size = 1 + random() % 4; size > 0; --size) text += "ab"[random() % 2];
      free.triggers.push_back({text, false, Grammar::literal("!")});
    }
    const auto grammar = Grammar::free_text(free);
    if (!grammar) continue;  // triggers that begin with each other
    for (int j = 0; j < 40; ++j) {
      std::string text;
      for (size_t size = random() % 8; size > 0; --size) text += "ab"[random() % 2];
      bool expected = false;  // the first trigger to end is at the end of the text
      size_t first = std::string::npos;
      for (size_t end = 1; end <= text.size() && first == std::string::npos; ++end)
        for (const auto& trigger : free.triggers)
          if (text.substr(0, end).ends_with(trigger.text)) first = end;
      expected = first == text.size() && !text.empty();
      ASSERT_EQ(accepts(*grammar, text + "!"), expected) << text;
    }
  }
}

TEST(ToolCalls, Required) {
  const std::vector<Tool> tools = {weather(), clock_tool()};
  const auto one = tool_calls(hermes(), tools, {.parallel = false}).value();
  EXPECT_TRUE(accepts(one, kCall));
  EXPECT_TRUE(accepts(one, kTime));
  EXPECT_FALSE(accepts(one, kCall + "\n" + kTime));
  EXPECT_FALSE(accepts(one, "Hello " + kCall));
  EXPECT_FALSE(
      accepts(one, "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(accepts(one, "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>"));
  // The marks may be control tokens of the tokenizer.
  EXPECT_TRUE(accepts(
      one, token("<tool_call>") + kTime.substr(11, kTime.size() - 23) + token("</tool_call>")));
  const auto more = tool_calls(hermes(), tools, {}).value();
  EXPECT_TRUE(accepts(more, kCall + "\n" + kTime + "\n" + kCall));
  EXPECT_FALSE(accepts(more, ""));
  const auto named = tool_calls(hermes(), std::span(tools).first(1), {}).value();
  EXPECT_FALSE(accepts(named, kTime));

  const auto list = tool_calls(mistral(), tools, {}).value();
  const std::string call = "{\"name\": \"get_time\", \"arguments\": {}}";
  EXPECT_TRUE(accepts(list, token("[TOOL_CALLS]") + "[" + call + ", " + call + "]"));
  EXPECT_TRUE(accepts(list, "[TOOL_CALLS][" + call + "]"));
  EXPECT_FALSE(accepts(list, "[TOOL_CALLS][]"));
}

TEST(ToolCalls, Auto) {
  const std::vector<Tool> tools = {weather(), clock_tool()};
  const auto grammar =
      tool_calls(hermes(), tools, {.required = false, .free_controls = {"<think>"}}).value();
  for (const std::string& good :
       {std::string("No call, {\"a\": 1 and <tool"), kCall,
        "Well: " + kCall + " and\n" + kTime + " done", token("<think>") + "so" + kCall,
        token("<tool_call>") + kTime.substr(11)})
    EXPECT_TRUE(accepts(grammar, good)) << good;
  for (const std::string& bad :
       {std::string("A <tool_call>"), "x" + kCall.substr(0, kCall.size() - 1),
        std::string("<tool_call>{}"), token("<tool_call>"), token("[TOOL_CALLS]")})
    EXPECT_FALSE(accepts(grammar, bad)) << bad;
  const auto once = tool_calls(hermes(), tools, {.required = false, .parallel = false}).value();
  EXPECT_TRUE(accepts(once, "x" + kCall));
  EXPECT_FALSE(accepts(once, kCall + "x"));

  // Without a mark the whole beginning is the trigger.
  const ToolCallFormat llama{.separator = "; ",
                             .call_begin = "{\"name\": \"",
                             .name_end = "\", \"parameters\": ",
                             .call_end = "}"};
  const auto bare = tool_calls(llama, tools, {.required = false}).value();
  EXPECT_TRUE(accepts(bare, "{\"names\": 1}"));
  EXPECT_TRUE(accepts(bare, "{\"name\": \"get_time\", \"parameters\": {}}"));
  EXPECT_FALSE(accepts(bare, "{\"name\": \"get_tim\", \"parameters\": {}}"));
}

TEST(ToolCalls, WalksEnd) {
  const Vocabulary vocabulary({"get_", "weather", "<tool_call>\n{\"name\": \"get_"});
  std::mt19937_64 random(9);
  const std::vector<Tool> tools = {weather(), clock_tool()};
  for (const bool required : {true, false}) {
    const auto grammar = tool_calls(hermes(), tools, {.required = required}).value();
    for (int i = 0; i < 30; ++i) {
      const Walk walk = random_walk(Matcher(grammar, vocabulary.trie), vocabulary, random);
      ASSERT_FALSE(walk.stuck) << walk.text;
      if (walk.ended) {
        EXPECT_TRUE(accepts(grammar, walk.text)) << walk.text;
      }
    }
  }
}

TEST(ToolCalls, RefusesByName) {
  Tool bad = weather();
  bad.parameters["properties"]["city"]["not"] = true;
  const std::vector<Tool> tools = {clock_tool(), bad};
  const auto refused = tool_calls(hermes(), tools, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("get_weather"), std::string::npos);
  EXPECT_NE(refused.error().message.find("/properties/city/not"), std::string::npos);
  EXPECT_FALSE(tool_calls(hermes(), {}, {}).ok());
  const std::vector<Tool> quoted = {{"a\"b", nullptr}};
  EXPECT_FALSE(tool_calls(hermes(), quoted, {}).ok());
}

TEST(Reasoning, ComesFirst) {
  const auto inner = Grammar::from_regex("[0-9]+").value();
  const auto grammar = after_reasoning({"<think>", "</think>"}, inner).value();
  EXPECT_TRUE(accepts(grammar, "42"));
  EXPECT_TRUE(accepts(grammar, "<think>why, <b> </think>\n\n42"));
  EXPECT_TRUE(accepts(grammar, token("<think>") + "why" + token("</think>") + "42"));
  EXPECT_FALSE(accepts(grammar, "<think>why"));
  EXPECT_FALSE(accepts(grammar, "why</think>42"));
  EXPECT_FALSE(accepts(grammar, "<think>why</think>x"));
  const auto opened = after_reasoning({"<think>", "</think>", true}, inner).value();
  EXPECT_TRUE(accepts(opened, "why</think>42"));
  EXPECT_FALSE(accepts(opened, "42"));
}

TEST(Compose, Blocks) {
  const std::vector<GrammarPtr> parts = {Grammar::literal("a"), Grammar::any_json(),
                                         Grammar::literal("")};
  const auto sequence = Grammar::sequence(parts).value();
  EXPECT_TRUE(accepts(sequence, "a[1]"));
  EXPECT_FALSE(accepts(sequence, "[1]"));
  const auto either = Grammar::any_of(parts).value();
  for (const char* good : {"a", "[1]", ""}) EXPECT_TRUE(accepts(either, good)) << good;
  const auto twice = Grammar::repeat(sequence, 1, 2).value();
  EXPECT_TRUE(accepts(twice, "a1a{}"));
  EXPECT_FALSE(accepts(twice, "a1a1a1"));
  EXPECT_FALSE(Grammar::repeat(sequence, 3, 2).ok());
  EXPECT_FALSE(Grammar::any_of({}).ok());
  EXPECT_TRUE(accepts(Grammar::sequence({}).value(), ""));
}

}  // namespace
}  // namespace ringkeep::grammar
