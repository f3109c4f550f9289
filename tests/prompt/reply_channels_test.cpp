// Replies in channels beyond what the goldens have: what is no message, no call, or cut.
#include <gtest/gtest.h>

#include <utility>

#include "prompt/reply_fixture.h"

namespace ringkeep::prompt {
namespace {

using RF = ReasoningFormat;
using TF = ToolFormat;

const std::string kAnalysis = "<|channel|>analysis<|message|>";
const std::string kFinal = "<|channel|>final<|message|>";
const std::string kNext = "<|end|><|start|>assistant";
const std::string kCall = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>";

struct Case {
  std::string text;
  Reply expected;
  ReplyFormat format = {TF::harmony, RF::harmony};
  bool tools = true, in_reasoning = false, cut = false;
};

Reply content(std::string text, std::string reasoning = "") {
  return {.content = std::move(text), .reasoning = std::move(reasoning)};
}
Reply call(std::string arguments, std::string content = "", std::string reasoning = "") {
  return {.content = std::move(content),
          .reasoning = std::move(reasoning),
          .calls = {{.name = "now", .arguments = std::move(arguments)}}};
}

const std::string kLong(900, 'x');

const std::vector<Case> kCases = {
    // What is no message is content; marks of messages are not in it.
    {"Hello <b>\n", content("Hello <b>\n")},
    {" \n", content(" \n")},
    {"", {}},
    {"assist", content("assist")},
    {"assistants <|channel|> x", content("assistants<|channel|> x")},
    {"<|channel|>analysis then text", content("<|channel|>analysis then text")},
    {"<|channel|>analysis a b<|message|>c", content("<|channel|>analysis a b<|message|>c")},
    {"<|channel|>a<|channel|>b<|message|>c", content("<|channel|>a\nc")},
    {"<|channel|><|message|>c", content("<|channel|><|message|>c")},
    {"<|channel|>" + std::string(600, 'n') + "<|message|>c",
     content("<|channel|>" + std::string(600, 'n') + "<|message|>c")},
    {"<|end|><|return|> \n<|call|>", {}},
    {kFinal + "a<|end|>\nb", content("a\nb")},
    {kFinal + "a<|end|>\n<|start|>assistant" + kFinal + "b", content("a\nb")},
    {"<|message|>a", content("a")},
    {"<|start|>assistant<|message|>a", content("a")},
    {"<|start|>user<|message|>a", content("a")},
    {"<|channel|>other<|message|>a", content("a")},
    {kFinal + "a <|en <|end", content("a <|en <|end")},
    {kFinal + "<|start|>assistant", content("<|start|>assistant")},
    {kFinal + "a<|end|><|start|>assistant", content("a<|start|>assistant")},
    {kFinal + " a\n", content(" a\n")},
    // Reasoning.
    {"Why?\n" + kNext + kFinal + "So.", content("So.", "Why?\n"), {}, true, true},
    {kAnalysis + "a" + kNext + kAnalysis + kNext + kAnalysis + "b", content("", "a\nb")},
    {kAnalysis + "a" + kNext + kFinal + "b",
     content(kAnalysis + "a<|end|>b"),
     {TF::harmony, RF::none}},
    {kAnalysis + "a" + kNext + kAnalysis + "b",
     content(kAnalysis + "a<|end|>" + kAnalysis + "b"),
     {TF::harmony, RF::none}},
    {"a" + kNext + kFinal + "b", content("a<|end|>b"), {TF::harmony, RF::none}, true, true},
    {kAnalysis + "a" + kNext + kCall + "{}",
     call("{}", kAnalysis + "a<|end|>"),
     {TF::harmony, RF::none}},
    // Calls.
    {kCall + "{}", call("{}")},
    {kCall + " ", call("{}")},
    {kCall + "\n{\"a\": \"<|call|>\"}\n<|call|>", call("{\"a\": \"<|call|>\"}")},
    {"<|channel|>commentary to=now<|message|>{}", call("{}")},
    {"<|channel|>commentary to=now<|message|>{}" + kNext + kFinal + "a", call("{}", "a")},
    {kCall + "{} and " + kNext + kFinal + "b", call("{}", " and\nb")},
    {kCall + "\"{}\"", call("{}")},
    {kCall + "{\"a\": \"" + kLong, call("{\"a\": \"" + kLong)},
    {kCall + "{\"a\": \"" + kLong + "\"; b", call("{\"a\": \"" + kLong + "\"", "; b")},
    // What is no call: its text is what its channel is.
    {kCall + "print(1)<|call|>", content("print(1)")},
    {kCall + "[1]", content("[1]")},
    {kCall + "{\"a\": 1<|call|>", content("{\"a\": 1")},
    {"<|channel|>analysis to=functions.now<|message|>{\"a\"", content("", "{\"a\"")},
    {"<|channel|>commentary to=functions.<|message|>{}", content("{}")},
    {"<|channel|>commentary to=other<|message|>{}", content("{}")},
    {kCall + "{}", content("{}"), {TF::harmony, RF::harmony}, false},
    {kCall + "{}", content("{}"), {TF::none, RF::harmony}},
    // Cut: no part of a mark, and of a call what there is.
    {kAnalysis + "a<|e", content("", "a"), {}, true, false, true},
    {kFinal + "a" + kNext + "<|channel|>ana", content("a"), {}, true, false, true},
    {"<|channel|>commentary to=functions.n", {}, {}, true, false, true},
    {kCall, {}, {}, true, false, true},
    {kCall + "{\"a\": [1, ", call("{\"a\": [1, "), {}, true, false, true},
    {kCall + "{}<|ca", call("{}"), {}, true, false, true},
};

TEST(ReplyChannels, Cases) {
  std::mt19937 random(6);
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.text);
    ReplyFormat format = one.format;
    if (!format.has_channels()) format = {TF::harmony, RF::harmony};
    const ReplyOptions options{.tools = one.tools ? test_tools() : nullptr,
                               .in_reasoning = one.in_reasoning};
    Reply whole = parse_pieces(format, {one.text}, options, one.cut);
    EXPECT_EQ(parse_pieces(format, cut(one.text, 1, random), options, one.cut), whole);
    EXPECT_EQ(parse_pieces(format, cut(one.text, 9, random), options, one.cut), whole);
    for (Call& each : whole.calls) each.id.clear();
    EXPECT_EQ(whole, one.expected);
  }
}

// With marks that are control tokens: the same where they are, and nothing but text where the same
// is only spelled.
TEST(ReplyChannels, MarksAreTokensNotTheirSpelling) {
  const ReplyFormat format{TF::harmony, RF::harmony};
  const std::vector<std::string> marks = reply_marks(format, true);
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.text);
    if (one.format.tools != TF::harmony || one.format.reasoning != RF::harmony) continue;
    const ReplyOptions options{.tools = one.tools ? test_tools() : nullptr,
                               .in_reasoning = one.in_reasoning,
                               .control_marks = marks};
    const std::string marked = with_control(one.text, marks);
    Reply whole = parse_pieces(format, {marked}, options, one.cut);
    EXPECT_EQ(parse_pieces(format, single(marked), options, one.cut), whole);
    for (Call& each : whole.calls) each.id.clear();
    if (one.text.find("\"<|call|>\"") == std::string::npos) {
      EXPECT_EQ(whole, one.expected);
    }
    if (one.cut || one.in_reasoning) continue;
    EXPECT_EQ(parse_pieces(format, single(one.text), options), content(one.text));
  }
}

TEST(ReplyChannels, ArgumentsMaySpellMarks) {
  const ReplyFormat format{TF::harmony, RF::harmony};
  const std::vector<std::string> marks = reply_marks(format, true);
  const ReplyOptions options{.tools = test_tools(), .control_marks = marks};
  const std::string arguments =
      "{\"<|end|>\": \"<|call|> <|start|>assistant\", \"b\": \"" + kLong + "<|channel|>\"}";
  const std::string head = with_control(kCall, marks), end = text::marked_control("<|call|>");
  for (const bool bytes : {false, true}) {
    const std::string text = head + arguments + end;
    Reply reply =
        parse_pieces(format, bytes ? single(text) : std::vector<std::string>{text}, options);
    for (Call& each : reply.calls) each.id.clear();
    EXPECT_EQ(reply, call(arguments));
  }
  // A control token ends what has no end of its own.
  Reply reply = parse_pieces(format, {head + "{\"a\": \"b" + end}, options);
  EXPECT_EQ(reply, content("{\"a\": \"b"));
}

// Others than the format's are nothing, or text that no mark is read in.
TEST(ReplyChannels, OtherControlTokens) {
  const ReplyFormat format{TF::harmony, RF::harmony};
  const std::vector<std::string> marks = reply_marks(format, true);
  const std::string text = with_control(kFinal, marks) + "a<|" + text::marked_control("end|>") +
                           "b" + text::marked_control("<pad>");
  EXPECT_EQ(parse_pieces(format, single(text), {.control_marks = marks}), content("a<|b"));
  EXPECT_EQ(parse_pieces(format, single(text), {.control_marks = marks, .show_control = true}),
            content("a<|end|>b<pad>"));
}

// Text that no mark can begin with is told at once, however long the message is.
TEST(ReplyChannels, TextIsToldAsItComes) {
  ReplyParser parser({TF::harmony, RF::harmony}, {});
  parser.push("<|channel|>final<|message|>");
  EXPECT_EQ(parser.push("one").content, "one");
  EXPECT_EQ(parser.push(" two<").content, " two");
  EXPECT_EQ(parser.push("|en").content, "");
  EXPECT_EQ(parser.push("ter").content, "<|enter");
}

// White space that may stand before a mark, and headers that lead nowhere: time in proportion.
TEST(ReplyChannels, LongRepliesOfLittleSense) {
  const ReplyFormat format{TF::harmony, RF::harmony};
  for (const std::string part : {std::string(" "), std::string("<|start|>"),
                                 std::string("<|channel|>a b c"), std::string("<|end|> ")}) {
    std::string text;
    while (text.size() < 400'000) text += part;
    const Reply whole = parse_pieces(format, {text}, {});
    EXPECT_EQ(parse_pieces(format, {text.substr(0, 100'001), text.substr(100'001)}, {}), whole);
  }
}

}  // namespace
}  // namespace ringkeep::prompt
