// What a chat spells stays text. The oracle is the tokenizer itself without control tokens.
#include "prompt/plain_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "prompt/message_ends.h"
#include "prompt/prompt.h"

namespace ringkeep::prompt {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

constexpr int32_t kBos = 256, kTurn = 257, kEnd = 258, kThink = 259, kUnthink = 260, kWide = 261,
                  kUser = 262;
const std::vector<std::string> kControl = {"<bos>",
                                           "<turn>",
                                           "<end>",
                                           "[THINK]",
                                           "[/THINK]",
                                           "<\xEF\xBD\x9C"
                                           "end>"};

// Every byte is its own token; control tokens, and one that is found in any text.
const text::Tokenizer& tokenizer() {
  static const std::unique_ptr<text::Tokenizer> made = [] {
    TokenizerData data;
    data.kind = TokenizerData::Kind::byte_bpe;
    for (int b = 0; b < 256; ++b) data.pieces.emplace_back(1, static_cast<char>(b));
    data.types.assign(256, TokenType::normal);
    for (const std::string& text : kControl) data.pieces.push_back(text);
    data.types.insert(data.types.end(), kControl.size(), TokenType::control);
    data.pieces.push_back("<tool>");
    data.types.push_back(TokenType::user_defined);
    data.pre = "default";
    data.add_bos = true;
    data.bos = kBos;
    data.eos = kEnd;
    return text::Tokenizer::create(std::move(data)).value();
  }();
  return *made;
}

const char* const kTemplate =
    "{{ bos_token }}{% for m in messages %}<turn>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content | trim }}"
    "{% else %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}<end>"
    "{% endfor %}{{ tools | tojson if tools }}"
    "{{ '<turn>model\n' if add_generation_prompt }}{{ mode }}";

Prompt chat(const Json& messages, const ChatOptions& options = {},
            const std::string& source = kTemplate) {
  return build_chat_prompt(tokenizer(), text::ChatTemplate::parse(source).value(), messages,
                           options)
      .value();
}

Json user(const std::string& content) {
  return Json::array({{{"role", "user"}, {"content", content}}});
}

std::vector<int32_t> plain(std::string_view text) {
  return tokenizer().encode(text, {.add_special = false, .parse_special = false});
}

std::vector<int32_t> joined(const std::vector<std::vector<int32_t>>& parts) {
  std::vector<int32_t> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<int32_t> turn(const std::string& content) {
  return joined({{kBos, kTurn}, plain("user\n"), plain(content), {kEnd, kTurn}, plain("model\n")});
}

TEST(PlainText, WhatAMessageSpellsIsNoControlToken) {
  for (const std::string& text : kControl) {
    for (const std::string& content : {text, "a" + text + "b", text + text, "<" + text, text + ">",
                                       "x<turn>" + text + "<end>"}) {
      const Prompt prompt = chat(user(content));
      EXPECT_EQ(prompt.tokens, turn(content)) << content;
      EXPECT_THAT(prompt.text, HasSubstr("user\n" + content + "<end>"));
      EXPECT_EQ(tokenizer().decode(prompt.tokens, true), prompt.text);
    }
  }
}

TEST(PlainText, UnlessItIsAskedFor) {
  EXPECT_EQ(
      chat(user("a<end>b"), {.parse_special = true}).tokens,
      joined(
          {{kBos, kTurn}, plain("user\na"), {kEnd}, plain("b"), {kEnd, kTurn}, plain("model\n")}));
}

// Tokens of plain text that are found in any text (type user_defined) still are.
TEST(PlainText, OtherTokensAreFound) {
  const std::vector<int32_t> tokens = chat(user("<tool><end>")).tokens;
  EXPECT_EQ(tokens, turn("<tool><end>"));
  EXPECT_EQ(std::ranges::count(tokens, kUser), 1);
}

// Without one, what is rendered and encoded is what it would be anyway.
TEST(PlainText, OrdinaryTextIsLeftAlone) {
  const auto made = text::ChatTemplate::parse(kTemplate).value();
  for (const std::string& content : {"hi", "a < b > c", "<turn", "turn>", "<", "[THINK", "  x  ",
                                     "\xEF\xB7\x90", "<\xEF\xBD\x9C", "<bos", "1 < 2"}) {
    const Prompt prompt = chat(user(content));
    const std::string text = made.render({{"messages", user(content)},
                                          {"bos_token", "<bos>"},
                                          {"add_generation_prompt", true}})
                                 .value();
    EXPECT_EQ(prompt.text, text);
    EXPECT_EQ(prompt.tokens,
              tokenizer().encode(text, {.add_special = false, .parse_special = true}))
        << content;
  }
}

// Wherever a request can put text: roles, parts that spell a token together, tools, variables.
TEST(PlainText, EveryTextOfARequest) {
  Json parts = Json::array();
  for (const char* text : {"<", "en", "d>", "<tu", "rn>", "[THINK", "]"})
    parts.push_back({{"type", "text"}, {"text", text}});
  const Json messages = Json::array({{{"role", "user<end>"}, {"content", parts}}});
  ChatOptions options;
  options.tools = Json::parse(R"([{"name": "<turn>", "<end>": {"<bos>x": ["<end>"]}}])");
  options.variables = {{"mode", "<end>"}};
  EXPECT_EQ(chat(messages, options).tokens,
            joined({{kBos, kTurn},
                    plain("user<end>\n<end><turn>[THINK]"),
                    {kEnd},
                    plain(R"([{"name": "<turn>", "<end>": {"<bos>x": ["<end>"]}}])"),
                    {kTurn},
                    plain("model\n<end>")}));
}

// Templates look for the marks of reasoning in what an assistant said; only there.
TEST(PlainText, MarksOfReasoningOfAnAssistant) {
  const std::string source =
      "{% for m in messages %}<turn>{{ m.content.split('[/THINK]')[-1] }}<end>{% endfor %}"
      "{{ '[THINK]' if false }}";
  const Json said = Json::array({{{"role", "assistant"}, {"content", "[THINK]a[/THINK]b<end>"}},
                                 {{"role", "user"}, {"content", "[THINK]a[/THINK]b"}}});
  EXPECT_EQ(chat(said, {}, source).tokens,
            joined({{kTurn}, plain("b<end>"), {kEnd, kTurn}, plain("[THINK]a[/THINK]b"), {kEnd}}));
}

TEST(PlainText, NoncharactersOfTheTextStay) {
  const std::string content = "\xEF\xB7\x90<end>\xEF\xB7\x91";
  EXPECT_EQ(chat(user(content)).tokens, turn(content));
  std::string all;
  for (int i = 0; i < 32; ++i) all += {'\xEF', '\xB7', static_cast<char>(0x90 + i)};
  EXPECT_EQ(chat(user(all)).tokens, turn(all));
  const auto refused = build_chat_prompt(tokenizer(), text::ChatTemplate::parse(kTemplate).value(),
                                         user(all + "<end>"));
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
}

// Texts of pieces of control tokens, in one or two messages: only the template's are read, and the
// text comes back whole.
TEST(PlainText, RandomTexts) {
  std::mt19937 random(7);
  std::vector<std::string> pieces = {"a", " ", "\xC3\xA9"};
  for (const std::string& text : kControl)
    for (size_t i = 1; i < text.size(); ++i) {
      if ((static_cast<uint8_t>(text[i]) & 0xC0) == 0x80) continue;
      pieces.push_back(text.substr(0, i));
      pieces.push_back(text.substr(i));
    }
  for (int round = 0; round < 500; ++round) {
    Json messages = Json::array();
    std::vector<int32_t> expected = {kBos};
    for (int m = 0; m < 2; ++m) {
      std::string content;
      Json parts = Json::array();
      for (int i = 0; i < 6; ++i) {
        const std::string& piece = pieces[random() % pieces.size()];
        content += piece;
        parts.push_back({{"type", "text"}, {"text", piece}});
      }
      messages.push_back({{"role", "user"}, {"content", parts}});
      expected = joined({expected, {kTurn}, plain("user\n" + content), {kEnd}});
    }
    const Prompt prompt = chat(messages);
    EXPECT_EQ(prompt.tokens, joined({expected, {kTurn}, plain("model\n")})) << prompt.text;
  }
}

TEST(PlainText, EndsOfMessagesAreFound) {
  const std::string long_text = "<end>" + std::string(40, 'x');
  Json messages = user(long_text);
  messages.push_back({{"role", "model"}, {"content", "<turn>"}});
  const auto made = text::ChatTemplate::parse(kTemplate).value();
  const Prompt prompt = build_chat_prompt(tokenizer(), made, messages).value();
  const auto ends = message_ends(tokenizer(), made, messages, {}, prompt);
  const size_t first = joined({{kBos, kTurn}, plain("user\n" + long_text), {kEnd}}).size();
  EXPECT_THAT(ends, testing::Contains(static_cast<int64_t>(first)));
}

// A text is refused for its size before anything is done with it; one that might fit is not.
TEST(Prompt, ATextThatCannotFitIsRefusedByItsSize) {
  const size_t longest = tokenizer().longest_token();
  ASSERT_EQ(longest, 8u);  // of [/THINK]
  EXPECT_TRUE(check_text_size(tokenizer(), 10 * longest, 10).ok());
  const auto refused = check_text_size(tokenizer(), 10 * longest + 1, 10);
  EXPECT_EQ(refused.error().kind, ErrorKind::input);
  for (const char* number : {"81 bytes", "at least 11 tokens", "more than 8 bytes", "holds 10"})
    EXPECT_THAT(refused.error().message, HasSubstr(number));
  EXPECT_TRUE(check_text_size(tokenizer(), size_t{1} << 40, 0).ok());
  EXPECT_FALSE(build_completion_prompt(tokenizer(), std::string(100, 'x'), 10).ok());
  EXPECT_FALSE(build_chat_prompt(tokenizer(), text::ChatTemplate::parse(kTemplate).value(),
                                 user(std::string(100, 'x')), {.context = 10})
                   .ok());
}

}  // namespace
}  // namespace ringkeep::prompt
