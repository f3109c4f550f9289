#include "prompt/prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringkeep::prompt {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

constexpr int32_t kBos = 256, kEos = 257, kTurn = 258;

// Every byte is its own token; three control tokens.
std::unique_ptr<text::Tokenizer> tokenizer(bool add_bos = true) {
  TokenizerData data;
  data.kind = TokenizerData::Kind::byte_bpe;
  for (int b = 0; b < 256; ++b) data.pieces.emplace_back(1, static_cast<char>(b));
  data.pieces.insert(data.pieces.end(), {"<bos>", "<eos>", "<turn>"});
  data.types.assign(256, TokenType::normal);
  data.types.insert(data.types.end(), 3, TokenType::control);
  data.pre = "default";
  data.add_bos = add_bos;
  data.bos = kBos;
  data.eos = kEos;
  return text::Tokenizer::create(std::move(data)).value();
}

std::vector<int32_t> bytes(std::string_view text, std::vector<int32_t> before = {}) {
  for (const char c : text) before.push_back(static_cast<uint8_t>(c));
  return before;
}

Result<Prompt> chat(const std::string& source, const Json& messages,
                    const ChatOptions& options = {}) {
  return build_chat_prompt(*tokenizer(), RK_TRY(text::ChatTemplate::parse(source)), messages,
                           options);
}

const Json kHello = Json::parse(R"([{"role": "user", "content": "hi"}])");
const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}<turn>{{ m.role }}:{% if m.content is string %}{{ "
    "m.content }}"
    "{% else %}{{ m.content | map(attribute='text') | join }}{% endif %}{% endfor %}"
    "{{ '<turn>model' if add_generation_prompt }}{{ tools | tojson if tools }}{{ mode }}";

TEST(Prompt, TheTemplateWritesTheOneBos) {
  const Prompt prompt = chat(kTemplate, kHello).value();
  EXPECT_EQ(prompt.text, "<bos><turn>user:hi<turn>model");
  std::vector<int32_t> expected = bytes("user:hi", {kBos, kTurn});
  expected.push_back(kTurn);
  EXPECT_EQ(prompt.tokens, bytes("model", expected));
  // A template without a BOS gets none.
  EXPECT_EQ(chat("{{ messages[0].content }}", kHello).value().tokens, bytes("hi"));
}

TEST(Prompt, OptionsReachTheTemplate) {
  ChatOptions options;
  options.tools = Json::parse(R"([{"b": 1, "a": 2}])");
  options.add_generation_prompt = false;
  options.variables = {{"mode", "fast"}};
  EXPECT_EQ(chat(kTemplate, kHello, options).value().text,
            "<bos><turn>user:hi[{\"b\": 1, \"a\": 2}]fast");
}

TEST(Prompt, TextPartsReachTheTemplate) {
  const Json messages = Json::parse(
      R"([{"role": "user", "content": [{"type": "text", "text": "AAA"}, {"type": "text", "text": "BBB"}]}])");
  EXPECT_THAT(chat(kTemplate, messages).value().text, HasSubstr("user:AAABBB"));
}

TEST(Prompt, CompletionHasExactlyOneBos) {
  EXPECT_EQ(build_completion_prompt(*tokenizer(), "hi").value().tokens, bytes("hi", {kBos}));
  EXPECT_EQ(build_completion_prompt(*tokenizer(), "<bos>hi").value().tokens, bytes("hi", {kBos}));
  EXPECT_EQ(build_completion_prompt(*tokenizer(false), "hi").value().tokens, bytes("hi"));
}

TEST(Prompt, ErrorsNameTheMessageAndThePart) {
  const auto error = [](const char* messages, const char* source = kTemplate) {
    const auto result = chat(source, Json::parse(messages));
    EXPECT_FALSE(result.ok()) << messages;
    if (result.ok()) return std::string();
    EXPECT_EQ(result.error().kind, ErrorKind::usage);
    return result.error().message;
  };
  EXPECT_THAT(error("[]"), HasSubstr("messages"));
  EXPECT_THAT(error("{}"), HasSubstr("messages"));
  EXPECT_THAT(error("[7]"), HasSubstr("messages[0]"));
  EXPECT_THAT(error(R"([{"role": "user", "content": 7}])"), HasSubstr("messages[0].content"));
  EXPECT_THAT(
      error(
          R"([{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "a"},
                        {"type": "image_url", "image_url": {"url": "x"}}]}])"),
      AllOf(HasSubstr("messages[1].content[1]"), HasSubstr("image")));
  EXPECT_THAT(error(R"([{"role": "user", "content": [{"type": "sound"}]}])"),
              HasSubstr("\"sound\""));
  EXPECT_THAT(error(R"([{"role": "user", "content": [{"type": "text"}]}])"),
              HasSubstr("content[0].text"));
  EXPECT_THAT(error(R"([{"role": "user", "content": "x"}])", ""), HasSubstr("empty"));
  EXPECT_EQ(error(R"([{"role": "user", "content": "x"}])", "{{ raise_exception('no') }}"), "no");
  EXPECT_EQ(build_completion_prompt(*tokenizer(), "").error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace ringkeep::prompt
