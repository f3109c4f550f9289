// Properties of the reply parser over random replies.
#include <gtest/gtest.h>

#include <cctype>

#include "prompt/reply_fixture.h"

namespace ringkeep::prompt {
namespace {

using Json = nlohmann::ordered_json;

constexpr ToolFormat kFormats[] = {ToolFormat::hermes,       ToolFormat::qwen3_coder,
                                   ToolFormat::llama3_json,  ToolFormat::mistral,
                                   ToolFormat::mistral_args, ToolFormat::functiongemma,
                                   ToolFormat::gemma4,       ToolFormat::deepseek_v3,
                                   ToolFormat::deepseek_v31, ToolFormat::harmony};
constexpr ReasoningFormat kReasoning[] = {ReasoningFormat::none, ReasoningFormat::think,
                                          ReasoningFormat::mistral, ReasoningFormat::gemma4,
                                          ReasoningFormat::harmony};

std::string pick(const std::vector<std::string>& from, std::mt19937& random) {
  return from[random() % from.size()];
}

ReplyFormat random_format(ToolFormat tools, std::mt19937& random) {
  const ReplyFormat format{tools, kReasoning[random() % std::size(kReasoning)]};
  if (check_reply_format(format).ok()) return format;
  return {tools, ReasoningFormat::none};
}

std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kWords = {
      "a", "ü", "🙂", " ", "\n", "\"",  "\\", "{", "}",     "[",  "]", ",",
      ":", "<", ">",    "|", "</", "'n'", "1",  "=", "call:", "\t", "`"};
  std::string text;
  for (size_t n = random() % 12; n > 0; --n) text += pick(kWords, random);
  return text;
}

Json random_value(int depth, std::mt19937& random) {
  switch (random() % (depth > 0 ? 7 : 5)) {
    case 0: return random_text(random);
    case 1: return static_cast<int>(random() % 2000) - 1000;
    case 2: return 0.25 * static_cast<int>(random() % 100);
    case 3: return random() % 2 == 0;
    case 4: return nullptr;
    case 5: {
      Json list = Json::array();
      for (size_t n = random() % 3; n > 0; --n) list.push_back(random_value(depth - 1, random));
      return list;
    }
    default: {
      Json object = Json::object();
      for (size_t n = random() % 3; n > 0; --n)
        object["k" + std::to_string(random() % 9)] = random_value(depth - 1, random);
      return object;
    }
  }
}

// As the templates of Gemma write a value.
std::string marked(const Json& value, const std::string& mark) {
  if (value.is_string()) return mark + value.get<std::string>() + mark;
  if (value.is_array()) {
    std::string text = "[";
    for (const Json& item : value) text += (text == "[" ? "" : ",") + marked(item, mark);
    return text + "]";
  }
  if (value.is_object()) {
    std::string text = "{";
    for (const auto& [key, item] : value.items())
      text += (text == "{" ? "" : ",") + key + ":" + marked(item, mark);
    return text + "}";
  }
  return value.dump();
}

std::string rendered(const Json& arguments, const CallGrammar& g) {
  switch (g.arguments) {
    case CallGrammar::Arguments::json: return arguments.dump();
    case CallGrammar::Arguments::marked: return marked(arguments, g.string_mark);
    case CallGrammar::Arguments::xml: break;
  }
  std::string text;
  for (const auto& [key, value] : arguments.items()) {
    text += g.parameter_begin + key + g.parameter_name_end +
            (value.is_string() ? value.get<std::string>() : value.dump()) + g.parameter_end;
  }
  return text;
}

// A schema whose types are those of the values.
Json schema_of(const Json& arguments) {
  Json properties = Json::object();
  for (const auto& [key, value] : arguments.items()) {
    properties[key]["type"] = value.is_string()    ? "string"
                              : value.is_array()   ? "array"
                              : value.is_object()  ? "object"
                              : value.is_boolean() ? "boolean"
                              : value.is_null()    ? "null"
                                                   : "number";
  }
  return properties;
}

struct Written {
  std::string text;  // of the calls
  Json tools = Json::array();
  std::vector<Json> arguments;
};

Written random_calls(ToolFormat format, std::mt19937& random) {
  const CallGrammar g = call_grammar(format);
  Written out{.text = g.begin, .arguments = std::vector<Json>(random() % 3 + 1)};
  for (size_t i = 0; i < out.arguments.size(); ++i) {
    Json& arguments = out.arguments[i] = Json::object();
    for (size_t n = random() % 4; n > 0; --n)
      arguments["p" + std::to_string(random() % 9)] = random_value(2, random);
    const std::string name = "f" + std::to_string(i);
    out.tools.push_back(
        {{"type", "function"},
         {"function", {{"name", name}, {"parameters", {{"properties", schema_of(arguments)}}}}}});
    out.text += (i > 0 ? g.separator : "") + g.call_begin + name + g.name_end +
                rendered(arguments, g) + g.call_end;
  }
  out.text += g.end;
  return out;
}

// What a grammar writes is read back, whatever the arguments are.
TEST(ReplyProperty, WhatTheGrammarWritesIsReadBack) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const ToolFormat format = kFormats[random() % std::size(kFormats)];
    const Written written = random_calls(format, random);
    const std::string before = format == ToolFormat::llama3_json ? "" : "Say.";
    SCOPED_TRACE(written.text);
    const Reply reply =
        parse_pieces({format, ReasoningFormat::none}, cut(before + written.text, 40, random),
                     {.tools = written.tools});
    EXPECT_EQ(reply.content, before);
    ASSERT_EQ(reply.calls.size(), written.arguments.size());
    for (size_t i = 0; i < reply.calls.size(); ++i) {
      EXPECT_EQ(reply.calls[i].name, "f" + std::to_string(i));
      EXPECT_EQ(Json::parse(reply.calls[i].arguments, nullptr, false), written.arguments[i]);
    }
  }
}

std::string without_last_space(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.pop_back();
  return text;
}

// A reply that the limit of tokens cuts, anywhere: what comes back is the beginning of what the
// whole reply gives, so no mark and no part of one is told, and pieces give the same.
TEST(ReplyProperty, ACutReplyIsTheBeginningOfTheWhole) {
  std::mt19937 random(4);
  const std::string kReplacement = "\xEF\xBF\xBD";
  int partial = 0, unfinished = 0;
  for (int round = 0; round < 120; ++round) {
    const ReplyFormat format =
        random_format(kFormats[static_cast<size_t>(round) % std::size(kFormats)], random);
    const ReasoningMarks marks = reasoning_marks(format);
    const Written written = random_calls(format.tools, random);
    std::string text;
    if (format.reasoning != ReasoningFormat::none && round % 2 == 0)
      text = marks.open + "\nHm, <b> [x] " + marks.close + "\n\n";
    if (format.tools != ToolFormat::llama3_json) text += "Say <b> [x]é: < [ { \n";
    text += written.text;
    if (round % 3 == 0 && format.tools != ToolFormat::llama3_json) text += " So <b>.";
    const ReplyOptions options{.tools = written.tools};
    const Reply whole = parse_pieces(format, {text}, options);
    ASSERT_EQ(whole.calls.size(), written.arguments.size()) << text;
    for (size_t at = 0; at <= text.size(); ++at) {
      const std::string part = text.substr(0, at);
      SCOPED_TRACE(part);
      const Reply reply = parse_pieces(format, {part}, options, /*cut_short=*/true);
      ASSERT_EQ(parse_pieces(format, cut(part, 1, random), options, true), reply);
      ASSERT_TRUE(reply.ordered);
      ASSERT_TRUE(whole.content.starts_with(without_last_space(reply.content))) << reply.content;
      ASSERT_TRUE(whole.reasoning.starts_with(without_last_space(reply.reasoning)))
          << reply.reasoning;
      ASSERT_LE(reply.calls.size(), whole.calls.size());
      for (size_t i = 0; i < reply.calls.size(); ++i) {
        const Call &call = reply.calls[i], &all = whole.calls[i];
        ASSERT_EQ(call.name, all.name);
        ASSERT_EQ(call.id, all.id);
        ASSERT_TRUE(all.arguments.starts_with(call.arguments)) << call.arguments;
        if (i + 1 < reply.calls.size()) {
          ASSERT_EQ(call.arguments, all.arguments);
        }
        partial += call.arguments != all.arguments ? 1 : 0;
      }
      if (at == text.size()) {
        ASSERT_EQ(reply, whole);
      }
      // As the server has it: the bytes of an unfinished character are one U+FFFD.
      size_t start = at;
      while (start < text.size() && (text[start] & 0xC0) == 0x80) --start;
      if (start == at) continue;
      const std::string ended = text.substr(0, start);
      const Reply shown = parse_pieces(format, {ended + kReplacement}, options, true);
      ASSERT_EQ(parse_pieces(format, {ended, kReplacement}, options, true), shown);
      const Reply before = parse_pieces(format, {ended}, options, true);
      ASSERT_TRUE(shown.content == before.content || shown.content == before.content + kReplacement)
          << shown.content;
      ASSERT_TRUE(whole.content.starts_with(without_last_space(before.content)));
      ASSERT_EQ(shown.calls, before.calls);
      ++unfinished;
    }
  }
  EXPECT_GT(partial, 500);
  EXPECT_GT(unfinished, 100);
}

std::string without_space(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) out += c;
  }
  return out;
}

// Only what was told before it was whole may be cut short.
bool is_json_or_long(const std::string& arguments) {
  return Json::accept(arguments) || (arguments[0] == '{' && arguments.size() > kCallHoldBack / 2);
}

// Soup of marks and their parts: any cut gives the same, arguments are JSON, and where nothing was
// called the text is all there.
TEST(ReplyProperty, SoupOfMarks) {
  std::mt19937 random(3);
  int called = 0;
  for (int round = 0; round < 6000; ++round) {
    const ReplyFormat format = random_format(kFormats[random() % std::size(kFormats)], random);
    const CallGrammar g = call_grammar(format.tools);
    const ReasoningMarks reasoning = reasoning_marks(format);
    std::vector<std::string> parts = {g.begin,
                                      g.separator,
                                      g.end,
                                      g.call_begin,
                                      g.call_begin,
                                      g.call_begin,
                                      g.name_end,
                                      g.name_end,
                                      g.call_end,
                                      g.call_end,
                                      g.parameter_begin,
                                      g.parameter_name_end,
                                      g.parameter_end,
                                      g.string_mark,
                                      "now",
                                      "now",
                                      "{}",
                                      "{}",
                                      R"({"a": "b"})",
                                      R"("name")",
                                      "\n",
                                      "[",
                                      "a",
                                      reasoning.open,
                                      reasoning.close,
                                      reasoning.next,
                                      reasoning.answer};
    if (format.has_channels())
      parts.insert(parts.end(), {"<|start|>", "<|channel|>", "<|message|>", "<|call|>", " to=now"});
    if (random() % 2 == 0) parts.push_back(std::string(600, 'z'));
    const std::string arguments = g.arguments == CallGrammar::Arguments::xml ? "" : "{}";
    for (int i = 0; i < 4; ++i)
      parts.push_back(g.begin + g.call_begin + "now" + g.name_end + arguments + g.call_end + g.end);
    std::string text;
    for (size_t n = random() % 14; n > 0; --n) {
      std::string part = pick(parts, random);
      if (random() % 8 == 0 && !part.empty()) part.resize(random() % part.size());
      text += random() % 8 == 0 ? random_text(random) : part;
    }
    SCOPED_TRACE(text);
    const ReplyOptions options{.tools = test_tools(), .in_reasoning = random() % 4 == 0};
    const Reply whole = parse_pieces(format, {text}, options);
    EXPECT_TRUE(whole.ordered);
    EXPECT_EQ(parse_pieces(format, cut(text, 1, random), options), whole);
    EXPECT_EQ(parse_pieces(format, cut(text, 20, random), options), whole);
    for (const Call& call : whole.calls)
      EXPECT_TRUE(is_json_or_long(call.arguments)) << call.arguments;
    called += static_cast<int>(whole.calls.size());
    if (!whole.calls.empty() || format.has_channels()) continue;
    if (format.reasoning == ReasoningFormat::none) {
      EXPECT_EQ(without_space(whole.content), without_space(text));
    }
    if (format.reasoning != ReasoningFormat::none &&
        text.find(reasoning.open) == std::string::npos &&
        text.find(reasoning.close) == std::string::npos) {
      EXPECT_EQ(without_space(whole.reasoning + whole.content), without_space(text));
    }
  }
  EXPECT_GT(called, 300);  // the soup is not too thin
}

}  // namespace
}  // namespace ringkeep::prompt
