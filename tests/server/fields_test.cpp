#include <gtest/gtest.h>

#include "server/openai/request.h"

namespace ringkeep::openai {
namespace {

const Defaults kDefaults{.vocab_size = 100};

// The field that a chat request with these members is refused for, or "".
template <typename T = ChatFields>
std::string refused(const std::string& members) {
  const std::string base = std::is_same_v<T, ChatFields>
                               ? R"("messages":[{"role":"user","content":"x"}])"
                               : R"("prompt":"x")";
  const Json body = parse_json("{" + base + (members.empty() ? "" : ",") + members + "}").value();
  T request;
  FieldReader reader(body);
  visit(reader, request, kDefaults);
  const auto error = reader.finish();
  return error ? error->param : "";
}

ChatFields chat(const std::string& members) {
  const Json body =
      parse_json(R"({"messages":[{"role":"user","content":"x"}],)" + members + "}").value();
  ChatFields request;
  FieldReader reader(body);
  visit(reader, request, kDefaults);
  const auto error = reader.finish();
  EXPECT_FALSE(error.has_value()) << error->message;
  return request;
}

TEST(Fields, NullAndAbsentAreTheDefault) {
  FieldSchema described;
  ChatFields request;
  visit(described, request, kDefaults);
  const Json schema = described.schema();
  for (const auto& [name, property] : schema["properties"].items()) {
    if (name == "messages") continue;
    EXPECT_EQ(refused("\"" + name + "\":null"), "") << name;
  }
}

TEST(Fields, EveryDescribedFieldHasAType) {
  FieldSchema described;
  CompletionFields request;
  visit(described, request, kDefaults);
  const Json schema = described.schema();
  for (const auto& [name, property] : schema["properties"].items()) {
    EXPECT_TRUE(property.contains("type") || property.contains("anyOf") ||
                property.contains("oneOf") || property.contains("enum") ||
                property["description"] == "Accepted and without effect here.")
        << name;
    EXPECT_TRUE(property.contains("description")) << name;
  }
}

TEST(Fields, BoundsHoldAtTheirEnds) {
  EXPECT_EQ(chat(R"("temperature":100)").sampling.temperature, 100.0f);
  EXPECT_EQ(refused(R"("temperature":100.001)"), "temperature");
  EXPECT_EQ(refused(R"("temperature":-1e-30)"), "temperature");
  EXPECT_EQ(chat(R"("max_tokens":9223372036854775807)").max_tokens, INT64_MAX);
  EXPECT_EQ(refused(R"("max_tokens":9223372036854775808)"), "max_tokens");
  EXPECT_EQ(refused(R"("max_tokens":1e19)"), "max_tokens");
  EXPECT_EQ(chat(R"("max_tokens":5.0)").max_tokens, 5);
  EXPECT_EQ(chat(R"("seed":18446744073709551615)").seed, UINT64_MAX);
  EXPECT_EQ(chat(R"("seed":-2)").seed, static_cast<uint64_t>(-2));
  EXPECT_FALSE(chat(R"("seed":-1)").seed.has_value());
  EXPECT_EQ(chat(R"("n":128)").n, 128);
  EXPECT_EQ(refused(R"("n":129)"), "n");
}

TEST(Fields, AliasesMayNotDisagree) {
  EXPECT_EQ(chat(R"("repeat_penalty":1.5)").sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(refused(R"("repeat_penalty":1.5,"repetition_penalty":1.5)"), "");
  EXPECT_EQ(refused(R"("repetition_penalty":1.5,"repeat_penalty":2)"), "repeat_penalty");
  EXPECT_EQ(refused(R"("max_completion_tokens":2,"max_tokens":null)"), "");
}

TEST(Fields, TheFirstFaultIsTold) {
  EXPECT_EQ(refused(R"("zzz":1)"), "zzz");
  EXPECT_EQ(refused(R"("zzz":1,"temperature":"x")"), "temperature");
}

TEST(Fields, OffIsTheOnlyValueOfWhatIsNotThere) {
  for (const char* off : {R"("mirostat":0)", R"("mirostat":0.0)", R"("typical_p":1)",
                          R"("use_beam_search":false)", R"("id_slot":-1)", R"("lora":[])"})
    EXPECT_EQ(refused(off), "") << off;
  EXPECT_EQ(refused(R"("mirostat":1)"), "mirostat");
  EXPECT_EQ(refused(R"("use_beam_search":true)"), "use_beam_search");
  EXPECT_EQ(refused(R"("use_beam_search":0)"), "use_beam_search");
}

TEST(Fields, LogitBiasInBothForms) {
  using Bias = std::vector<std::pair<int32_t, float>>;
  EXPECT_EQ(chat(R"("logit_bias":{"5":1,"99":-100})").sampling.logit_bias,
            (Bias{{5, 1.0f}, {99, -100.0f}}));
  EXPECT_EQ(chat(R"("logit_bias":[[5,1.5]])").sampling.logit_bias, (Bias{{5, 1.5f}}));
  EXPECT_EQ(refused(R"("logit_bias":{"100":1})"), "logit_bias.100");
  EXPECT_EQ(refused(R"("logit_bias":[[1,1],[100,1]])"), "logit_bias[1]");
}

TEST(Fields, PromptsInEveryForm) {
  const auto prompts = [](const std::string& text) {
    const Json body = parse_json(R"({"prompt":)" + text + "}").value();
    CompletionFields request;
    FieldReader reader(body);
    visit(reader, request, kDefaults);
    return reader.finish() ? 0 : request.prompts.size();
  };
  EXPECT_EQ(prompts("\"a\""), 1u);
  EXPECT_EQ(prompts("[1,2,3]"), 1u);
  EXPECT_EQ(prompts("[\"a\",\"b\"]"), 2u);
  EXPECT_EQ(prompts("[[1],[2,3],[4]]"), 3u);
  for (const char* bad : {"[]", "[[]]", "[1,\"a\"]", "[\"a\",1]", "[100]", "{}", "\"\"", "null"})
    EXPECT_EQ(prompts(bad), 0u) << bad;
}

TEST(Fields, RulesExcludeEachOther) {
  EXPECT_EQ(chat(R"("guided_regex":"a")").rule.kind, OutputRule::Kind::regex);
  EXPECT_EQ(chat(R"("response_format":{"type":"text"})").rule.kind, OutputRule::Kind::none);
  EXPECT_EQ(refused(R"("guided_regex":"a","grammar":"root ::= \"x\"")"), "guided_regex");
}

TEST(Fields, BestOfIsAtLeastN) {
  EXPECT_EQ(refused<CompletionFields>(R"("best_of":3)"), "");
  EXPECT_EQ(refused<CompletionFields>(R"("best_of":3,"n":3,"stream":true)"), "");
  EXPECT_EQ(refused<CompletionFields>(R"("best_of":2,"n":3)"), "best_of");
  EXPECT_EQ(refused<CompletionFields>(R"("best_of":3,"stream":true)"), "best_of");
  EXPECT_EQ(refused<CompletionFields>(R"("best_of":129)"), "best_of");
  EXPECT_EQ(refused<CompletionFields>(R"("suffix":"x")"), "suffix");
  EXPECT_EQ(refused<CompletionFields>(R"("prompt_logprobs":1)"), "prompt_logprobs");
}

// Whatever a chat template goes through is counted, and one more than the limit is refused by name.
TEST(Fields, WhatATemplateGoesThroughIsCounted) {
  const auto list = [](const std::string& item, size_t count) {
    std::string text = "[";
    for (size_t i = 0; i < count; ++i) text += (i > 0 ? "," : "") + item;
    return text + "]";
  };
  const auto told = [](const std::string& body) {
    const Json json = parse_json(body).value();
    ChatFields request;
    FieldReader reader(json);
    visit(reader, request, kDefaults);
    const auto error = reader.finish();
    return error ? *error : ApiError{};
  };
  const auto messages = [&](const std::string& item, size_t count) {
    return told(fmt::format(R"({{"messages":{}}})", list(item, count)));
  };
  const std::string plain = R"({"role":"user","content":"x"})";
  EXPECT_EQ(messages(plain, kMaxMessages).param, "");
  const ApiError many = messages(plain, kMaxMessages + 1);
  EXPECT_EQ(many.param, "messages");
  EXPECT_EQ(many.message, "messages: at most 4096 messages are allowed, found 4097");

  const auto parts = [&](size_t count) {
    return fmt::format(R"({{"role":"user","content":{}}})",
                       list(R"({"type":"text","text":"x"})", count));
  };
  EXPECT_EQ(messages(parts(kMaxParts), 1).param, "");
  EXPECT_EQ(messages(parts(kMaxParts + 1), 1).param, "messages[0].content");
  EXPECT_EQ(messages(parts(kMaxParts / 2), 2).param, "");
  EXPECT_EQ(messages(parts(kMaxParts / 2 + 1), 2).param, "messages[1].content");

  const auto calls = [&](size_t count) {
    return fmt::format(R"({{"role":"assistant","tool_calls":{}}})",
                       list(R"({"function":{"name":"f","arguments":"{}"}})", count));
  };
  EXPECT_EQ(messages(calls(kMaxToolCalls), 1).param, "");
  EXPECT_EQ(messages(calls(kMaxToolCalls / 2 + 1), 2).param, "messages[1].tool_calls");

  const std::string tool = R"({"type":"function","function":{"name":"f"}})";
  EXPECT_EQ(refused(fmt::format("\"tools\":{}", list(tool, kMaxTools))), "");
  EXPECT_EQ(refused(fmt::format("\"tools\":{}", list(tool, kMaxTools + 1))), "tools");
  EXPECT_EQ(refused(fmt::format("\"documents\":{}", list("{}", kMaxDocuments))), "");
  EXPECT_EQ(refused(fmt::format("\"documents\":{}", list("{}", kMaxDocuments + 1))), "documents");
  EXPECT_EQ(refused(fmt::format("\"stop_token_ids\":{}", list("1", kMaxStopTokens))), "");
  EXPECT_EQ(refused(fmt::format("\"stop_token_ids\":{}", list("1", kMaxStopTokens + 1))),
            "stop_token_ids");
  const auto biases = [](int count) {
    Json array = Json::array();
    for (int id = 0; id < count; ++id) array.push_back({id, 1});
    return fmt::format("\"logit_bias\":{}", dump(array));
  };
  EXPECT_EQ(refused(biases(100)), "");
  EXPECT_EQ(refused(biases(101)), "logit_bias");
  EXPECT_EQ(refused("\"logit_bias\":[[1,1],[1,2]]"), "logit_bias[1]");
  EXPECT_EQ(refused("\"logit_bias\":{\"1\":1,\"01\":2}"), "logit_bias.01");
  const auto variables = [](size_t count) {
    Json object = Json::object();
    for (size_t i = 0; i < count; ++i) object["k" + std::to_string(i)] = 1;
    return fmt::format("\"chat_template_kwargs\":{}", dump(object));
  };
  EXPECT_EQ(refused(variables(kMaxTemplateVariables)), "");
  EXPECT_EQ(refused(variables(kMaxTemplateVariables + 1)), "chat_template_kwargs");
}

TEST(Errors, TellLongNamesShort) {
  std::string name = "x";
  while (name.size() < 5000) name += "\u00e9";
  const Json error = error_json(bad_field(name, name + ": there is no such field"))["error"];
  for (const char* member : {"message", "param"}) {
    const std::string text = error[member].get<std::string>();
    EXPECT_LE(text.size(), 2003u);
    EXPECT_TRUE(text.ends_with("\u00e9...")) << text.substr(text.size() - 8);
  }
}

TEST(Fields, MessagesBecomeWhatTemplatesRead) {
  const ChatFields request =
      chat(R"("tools":[{"type":"function","function":{"name":"f"}}],"user":null)");
  EXPECT_EQ(request.messages, Json::parse(R"([{"role":"user","content":"x"}])"));
  EXPECT_EQ(request.shown.tools.size(), 1u);
}

}  // namespace
}  // namespace ringkeep::openai
