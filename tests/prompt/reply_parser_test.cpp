#include "prompt/reply_parser.h"

#include <gtest/gtest.h>

#include <utility>

#include "prompt/reply_fixture.h"

namespace ringkeep::prompt {
namespace {

using Json = nlohmann::ordered_json;
using TF = ToolFormat;
using RF = ReasoningFormat;

struct Case {
  ReplyFormat format;
  std::string text;
  Reply expected;
  bool in_reasoning = false;
};

Reply content(std::string text) { return {.content = std::move(text)}; }
Reply calls(std::vector<Call> calls, std::string content = "", std::string reasoning = "") {
  return {
      .content = std::move(content), .reasoning = std::move(reasoning), .calls = std::move(calls)};
}

const std::string kCity = R"({"city": "Paris"})";

std::vector<Case> cases() {
  const ReplyFormat hermes{TF::hermes, RF::think};
  const ReplyFormat coder{TF::qwen3_coder, RF::none};
  const ReplyFormat llama{TF::llama3_json, RF::none};
  const ReplyFormat mistral{TF::mistral, RF::none};
  const ReplyFormat args{TF::mistral_args, RF::mistral};
  const ReplyFormat function_gemma{TF::functiongemma, RF::none};
  const ReplyFormat gemma4{TF::gemma4, RF::gemma4};
  const ReplyFormat v3{TF::deepseek_v3, RF::think};
  const ReplyFormat v31{TF::deepseek_v31, RF::think};
  const std::string hermes_call =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
      "\"Paris\"}}\n</tool_call>";
  const std::string long_text(900, 'x');
  return {
      // Plain text, and what looks like a mark.
      {{},
       "  a <think> b </think> {\"name\": \"now\"}\n",
       content("  a <think> b </think> {\"name\": \"now\"}\n")},
      {hermes, " Hello <b>\n\n", content(" Hello <b>\n\n")},
      {hermes, "a <tool_cal b <tool_", content("a <tool_cal b <tool_")},
      {hermes, "<<tool_call", content("<<tool_call")},
      // Reasoning.
      {hermes, "<think>\nWhy?\n</think>\n\nSo.", {.content = "So.", .reasoning = "Why?"}},
      {hermes, "Why?\n</think>\n\nSo.", {.content = "So.", .reasoning = "Why?"}, true},
      {hermes, "Why </thin> not", {.reasoning = "Why </thin> not"}, true},
      {hermes, "<think>\n\n</think>\n\nSo.", content("So.")},
      {hermes, "Say <think> and </think>.", content("Say <think> and </think>.")},
      {hermes, "<think>a <tool_call> b</think>c", {.content = "c", .reasoning = "a <tool_call> b"}},
      {args, "[THINK]Why?[/THINK]So.", {.content = "So.", .reasoning = "Why?"}},
      {gemma4, "<|channel>thought\nWhy?\n<channel|>So.", {.content = "So.", .reasoning = "Why?"}},
      {gemma4, "<|channel>thought\n<channel|>So.", content("So.")},
      // Hermes.
      {hermes, hermes_call, calls({{"get_weather", kCity}})},
      {hermes, "Let me see.\n" + hermes_call + "\n",
       calls({{"get_weather", kCity}}, "Let me see.")},
      {hermes, "<think>\nHm\n</think>\n\n" + hermes_call + "\n" + hermes_call,
       calls({{"get_weather", kCity}, {"get_weather", kCity}}, "", "Hm")},
      {hermes,
       "<tool_call>{\"arguments\": {\"a\": [1, {\"b\": null}]}, \"name\": \"f\"}</tool_call>",
       calls({{"f", R"({"a": [1, {"b": null}]})"}})},
      {hermes, "<tool_call>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\"}]</tool_call>",
       calls({{"f", "{}"}, {"g", "{}"}})},
      {hermes, R"(<tool_call>{"name": "f", "arguments": "{\"a\": \"\\\"q\\\"\"}"}</tool_call>)",
       calls({{"f", R"({"a": "\"q\""})"}})},
      {hermes,
       "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"1\n2\t\\u00e9\"}}</tool_call>",
       calls({{"f", R"({"a": "1\n2\t\u00e9"})"}})},
      {hermes,
       R"(<tool_call>{"id": "x", "type": "function", "name": "f", "arguments": {}, "n": 1}</tool_call>)",
       calls({{"f", "{}"}})},
      {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {}}", calls({{"f", "{}"}})},  // no end
      {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_",
       calls({{"f", "{}"}})},  // cut
      {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {}\n</tool_call>",
       calls({{"f", "{}"}}, "</tool_call>")},
      {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {}} done",
       calls({{"f", "{}"}}, "done")},
      {hermes, "x <tool_call>no</tool_call> y", content("x <tool_call>no</tool_call> y")},
      {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": tru}}</tool_call>",
       content("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": tru}}</tool_call>")},
      {hermes, "a\n<tool_call>{\"name\": \"f\", \"argum",
       content("a\n<tool_call>{\"name\": \"f\", \"argum")},
      {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1",
       content("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1")},
      {hermes, "<tool_call>oops " + hermes_call,
       calls({{"get_weather", kCity}}, "<tool_call>oops")},
      {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"" + long_text,
       calls({{"f", "{\"a\": \"" + long_text}})},  // told before it was cut
      {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"" + long_text + "\"; b",
       calls({{"f", "{\"a\": \"" + long_text + "\""}}, "; b")},
      // Qwen3-Coder.
      {coder,
       "<tool_call>\n<function=get_weather>\n<parameter=city>\nNew\nYork "
       "</parameter\n</parameter>\n"
       "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
       calls({{"get_weather", R"({"city": "New\nYork </parameter", "days": 3})"}})},
      {coder, "Go.\n<function=now>\n</function>\n</tool_call>", calls({{"now", "{}"}}, "Go.")},
      {coder,
       "<tool_call><function=get_weather><parameter=units>null</parameter><parameter=exact>True</"
       "parameter>"
       "<parameter=where>{\"x\": "
       "1}</parameter><parameter=list>[1]</parameter><parameter=ratio>0.5</parameter>"
       "<parameter=any>7</parameter><parameter=new>8</parameter><parameter=city>9</parameter></"
       "function></tool_call>",
       calls(
           {{"get_weather",
             R"({"units": null, "exact": true, "where": {"x": 1}, "list": [1], "ratio": 0.5, "any": "7", "new": "8", "city": "9"})"}})},
      {coder,
       "<tool_call><function=get_weather><parameter=days>many</parameter></function></tool_call>",
       calls({{"get_weather", R"({"days": "many"})"}})},
      {coder, "<function=now> what?", content("<function=now> what?")},
      {coder, "<tool_call>\n<function=now>\n<parameter=a>\n1",
       content("<tool_call>\n<function=now>\n<parameter=a>\n1")},
      // Llama 3.
      {llama, R"({"name": "get_weather", "parameters": {"city": "Paris"}})",
       calls({{"get_weather", kCity}})},
      {llama, R"(<|python_tag|>{"type": "function", "name": "f", "parameters": {}})",
       calls({{"f", "{}"}})},
      {llama, R"({"name": "now", "parameters": {}}; {"name": "now", "parameters": {}})",
       calls({{"now", "{}"}, {"now", "{}"}})},
      {llama, "{\"name\": \"now\", \"parameters\": {}}\n{\"name\": \"now\"}",
       calls({{"now", "{}"}, {"now", "{}"}})},
      {llama, R"({"name": "Bob", "parameters": {}})",
       content(R"({"name": "Bob", "parameters": {}})")},
      {llama, R"(Use {"name": "now", "parameters": {}})",
       content(R"(Use {"name": "now", "parameters": {}})")},
      {llama, "{\"a\": 1}", content("{\"a\": 1}")},
      {llama, "<|python_tag|>print(1)", content("<|python_tag|>print(1)")},
      // Mistral.
      {mistral,
       R"([TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "abcdefghi"}])",
       calls({{"get_weather", kCity}})},
      {mistral, R"([TOOL_CALLS][{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}])",
       calls({{"f", "{}"}, {"g", "{}"}})},
      {mistral, R"([TOOL_CALLS][{"name": "f", "arguments": {}}, {"name" no])",
       calls({{"f", "{}"}}, R"( {"name" no])")},
      {mistral, "[TOOL_CALLS] and so on", content("[TOOL_CALLS] and so on")},
      {args,
       R"([TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]now[CALL_ID]abcdefghi[ARGS]{})",
       calls({{"get_weather", kCity}, {"now", "{}"}})},
      {args, R"([THINK]Hm[/THINK]See:[TOOL_CALLS]now{})", calls({{"now", "{}"}}, "See:", "Hm")},
      {args, "[TOOL_CALLS]now[ARGS", content("[TOOL_CALLS]now[ARGS")},
      // FunctionGemma and Gemma 4.
      {function_gemma,
       "<start_function_call>call:get_weather{city:<escape>A, "
       "{\"B\"}<escape>,days:3,exact:true}<end_function_call>",
       calls({{"get_weather", R"({"city":"A, {\"B\"}","days":3,"exact":true})"}})},
      {function_gemma,
       "<start_function_call>call:f{a:<escape>x<escape>}<end_function_call><start_function_call>"
       "call:g{}<end_function_call>",
       calls({{"f", R"({"a":"x"})"}, {"g", "{}"}})},
      {function_gemma, "<start_function_call>call:f{a:Paris}<end_function_call>",
       calls({{"f", R"({"a":"Paris"})"}})},
      {function_gemma, "<start_function_call>f{}", content("<start_function_call>f{}")},
      {gemma4,
       "<|channel>thought\nHm<channel|><|tool_call>call:f{a:[1,{b:<|\"|>c<|\"|>}],<|\"|>d "
       "e<|\"|>:null}<tool_call|>",
       calls({{"f", R"({"a":[1,{"b":"c"}],"d e":null})"}}, "", "Hm")},
      {gemma4, "<|tool_call>call:f{a:<|\"|>x", content("<|tool_call>call:f{a:<|\"|>x")},
      // DeepSeek.
      {v3,
       "Hm</"
       "think>\n\nSee.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_"
       "weather\n```json\n{\"city\": \"Paris\"}\n```"
       "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<"
       "｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       calls({{"get_weather", kCity}, {"now", "{}"}}, "See.", "Hm"), true},
      {v31,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": "
       "\"Paris\"}<｜tool▁call▁end｜>"
       "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       calls({{"get_weather", kCity}, {"now", "{}"}})},
      {v31, "<｜tool▁calls▁begin｜>?", content("<｜tool▁calls▁begin｜>?")},
  };
}

Reply parse(const Case& c, const std::vector<std::string>& pieces) {
  return parse_pieces(c.format, pieces, {.tools = test_tools(), .in_reasoning = c.in_reasoning});
}

TEST(ReplyParser, EachFormatGivesWhatItsTextSays) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.text);
    Reply reply = parse(c, {c.text});
    for (Call& call : reply.calls) call.id.clear();
    EXPECT_EQ(reply, c.expected);
  }
}

TEST(ReplyParser, AnyCutGivesTheSame) {
  std::mt19937 random(1);
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.text);
    const Reply whole = parse(c, {c.text});
    EXPECT_EQ(parse(c, cut(c.text, 1, random)), whole);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(parse(c, cut(c.text, 9, random)), whole);
    for (size_t at = 0; at <= c.text.size(); ++at)
      EXPECT_EQ(parse(c, {c.text.substr(0, at), c.text.substr(at)}), whole) << at;
  }
}

// With marks that are control tokens: the same where they are, and nothing but text where the same
// is only spelled. (The two formats that are left out may begin a call without a mark.)
TEST(ReplyParser, MarksAreTokensNotTheirSpelling) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.text);
    const std::vector<std::string> marks = reply_marks(c.format, true);
    const ReplyOptions options{
        .tools = test_tools(), .in_reasoning = c.in_reasoning, .control_marks = marks};
    Reply marked = parse_pieces(c.format, single(with_control(c.text, marks)), options);
    for (Call& call : marked.calls) call.id.clear();
    EXPECT_EQ(marked, c.expected);
    if (marks.empty() || c.in_reasoning || c.format.tools == TF::llama3_json ||
        c.format.tools == TF::qwen3_coder)
      continue;
    EXPECT_EQ(parse_pieces(c.format, single(c.text), options), content(c.text));
  }
}

// With a call that is cut short the name and the beginning of its arguments come back; before the
// name is known, nothing does.
TEST(ReplyParser, ACutCallIsToldAsFarAsItGoes) {
  const std::string begin = "<｜tool▁calls▁begin｜>";
  const std::string named = begin + "<｜tool▁call▁begin｜>now<｜tool▁sep｜>";
  const std::string llama = "{\"name\": \"now\", \"parameters\": {\"a\": \"b";
  const std::vector<Case> all = {
      {{TF::deepseek_v31, RF::none}, "a" + begin, content("a")},
      {{TF::deepseek_v31, RF::none}, named.substr(0, named.size() - 1), content("")},
      {{TF::deepseek_v31, RF::none}, named + "{", calls({{"now", "{"}})},
      {{TF::deepseek_v31, RF::none},
       named + "{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜to",
       calls({{"now", "{}"}})},
      {{TF::deepseek_v31, RF::none}, named + "{\"a\": tr", calls({{"now", "{\"a\": "}})},
      {{TF::hermes, RF::think}, "<think>a</thi", {.reasoning = "a"}},
      {{TF::hermes, RF::think}, "<think>a\n", {.reasoning = "a\n"}},
      {{TF::hermes, RF::think}, "a\n<tool_", content("a")},
      {{TF::hermes, RF::think}, "a <", content("a")},
      {{TF::hermes, RF::think}, "a <b", content("a <b")},
      {{TF::llama3_json, RF::none}, llama, calls({{"now", "{\"a\": \"b"}})},
      {{TF::llama3_json, RF::none}, "{\"name\": \"no", content("")},
      {{TF::llama3_json, RF::none}, "{\"a\": [1", content("{\"a\": [1")},
      {{TF::qwen3_coder, RF::none},
       "<function=now>\n<parameter=a>\nb\n</par",
       calls({{"now", "{\"a\": \"b"}})},
  };
  for (const Case& c : all) {
    SCOPED_TRACE(c.text);
    Reply reply = parse_pieces(c.format, {c.text}, {.tools = test_tools()}, /*cut_short=*/true);
    for (Call& call : reply.calls) call.id.clear();
    EXPECT_EQ(reply, c.expected);
  }
}

TEST(ReplyParser, WithoutToolsCallsAreContent) {
  for (const Case& c : cases()) {
    if (c.format.reasoning != RF::none) continue;
    EXPECT_EQ(parse_pieces(c.format, {c.text}, {}), content(c.text));
  }
}

TEST(ReplyParser, ALongCallIsToldBeforeItIsWhole) {
  ReplyParser parser({TF::hermes, RF::none}, {.tools = test_tools()});
  const std::string head = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"";
  EXPECT_TRUE(parser.push(head).empty());
  EXPECT_TRUE(parser.push(std::string(100, 'x')).empty());
  const ReplyDelta first = parser.push(std::string(kCallHoldBack, 'x'));
  ASSERT_EQ(first.tool_calls.size(), 1u);
  EXPECT_EQ(first.tool_calls[0].name, "f");
  EXPECT_FALSE(first.tool_calls[0].id.empty());
  const ReplyDelta second = parser.push("yy");
  ASSERT_EQ(second.tool_calls.size(), 1u);
  EXPECT_EQ(second.tool_calls[0].arguments, "yy");
  EXPECT_EQ(second.tool_calls[0].index, 0);
  EXPECT_TRUE(second.tool_calls[0].id.empty());
}

TEST(ReplyParser, ContentIsNotKeptBack) {
  ReplyParser parser({TF::hermes, RF::think}, {.tools = test_tools()});
  EXPECT_EQ(parser.push("Hello").content, "Hello");
  EXPECT_EQ(parser.push(" <t").content, "");
  EXPECT_EQ(parser.push("d>").content, " <td>");
}

TEST(ReplyParser, MistralIdsHaveNineLettersOrDigits) {
  const Reply reply =
      parse_pieces({TF::mistral_args, RF::none}, {"[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]now[ARGS]{}"},
                   {.tools = test_tools()});
  ASSERT_EQ(reply.calls.size(), 2u);
  EXPECT_NE(reply.calls[0].id, reply.calls[1].id);
  for (const Call& call : reply.calls) {
    EXPECT_EQ(call.id.size(), 9u);
    EXPECT_TRUE(std::all_of(call.id.begin(), call.id.end(),
                            [](unsigned char c) { return std::isalnum(c); }));
  }
}

}  // namespace
}  // namespace ringkeep::prompt
