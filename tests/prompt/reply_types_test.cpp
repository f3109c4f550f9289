// The types that a schema leaves to a parameter, and values read by them.
#include <gtest/gtest.h>

#include "prompt/parameter_types.h"
#include "prompt/reply_fixture.h"

namespace ringkeep::prompt {
namespace {

using Json = nlohmann::ordered_json;

TEST(ReplyTypes, AreWhatTheSchemaLeaves) {
  const Json schema = Json::parse(R"({"allOf": [{"$ref": "#/$defs/base"}], "anyOf": [
      {"properties": {"e": {"type": "integer"}}}, {"properties": {"e": {"type": "null"}}}],
    "properties": {"a": {"$ref": "#/$defs/a~1b"}, "b": {"const": 1.5}, "c": {"enum": ["x", 2, null]},
      "d": {"type": ["string", "boolean"], "enum": [true, 3]}, "n": {"type": "string", "nullable": true},
      "any": {}, "odd": {"$ref": "elsewhere"}, "loop": {"$ref": "#/properties/loop"},
      "one": {"allOf": [{"type": ["integer", "string"]}, {"oneOf": [{"const": "u"}, {"type": "array"}]}]}},
    "additionalProperties": {"type": "number"},
    "$defs": {"a/b": {"type": "object"}, "base": {"properties": {"f": {"type": "array"}}}}})");
  const auto types = [&](const char* name) { return parameter_types(schema, name); };
  EXPECT_EQ(types("a"), kParameterObject);
  EXPECT_EQ(types("b"), kParameterNumber);
  EXPECT_EQ(types("c"), kParameterString | kParameterInteger | kParameterNull);
  EXPECT_EQ(types("d"), kParameterBoolean);
  EXPECT_EQ(types("n"), kParameterString | kParameterNull);
  EXPECT_EQ(types("any"), kParameterAny);
  EXPECT_EQ(types("odd"), kParameterAny);
  EXPECT_EQ(types("loop"), kParameterAny);
  EXPECT_EQ(types("one"), kParameterString);
  EXPECT_EQ(types("other"), kParameterInteger | kParameterNumber);
  EXPECT_EQ(parameter_types(Json::parse(R"({"properties": {}})"), "x"), std::nullopt);
  for (const char* none :
       {"null", "[]", "true", R"({"properties": [1]})", R"({"allOf": {"a": 1}})"})
    EXPECT_EQ(parameter_types(Json::parse(none), "x"), std::nullopt) << none;
}

// Schemas that refer to each other without end.
TEST(ReplyTypes, HostileSchemasEnd) {
  Json schema = {{"$defs", Json::object()}};
  for (int i = 0; i < 40; ++i) {
    const Json next = {{"$ref", "#/$defs/" + std::to_string((i + 1) % 40)}};
    schema["$defs"][std::to_string(i)] = {{"allOf", {next, next}}, {"anyOf", {next, next}}};
  }
  schema["properties"]["a"] = {{"$ref", "#/$defs/0"}};
  EXPECT_EQ(parameter_types(schema, "a"), kParameterAny);
  schema["allOf"] = {{{"$ref", "#"}}, {{"$ref", "#"}}};
  EXPECT_TRUE(parameter_types(schema, "a").has_value());
}

TEST(ReplyTypes, OfValues) {
  const std::pair<const char*, uint8_t> values[] = {
      {"null", kParameterNull},    {"3", kParameterInteger},    {"-3", kParameterInteger},
      {"3.0", kParameterInteger},  {"1e30", kParameterInteger}, {"0.5", kParameterNumber},
      {"\"3\"", kParameterString}, {"[]", kParameterArray},     {"{}", kParameterObject},
      {"false", kParameterBoolean}};
  for (const auto& [text, type] : values)
    EXPECT_EQ(parameter_type(Json::parse(text)), type) << text;
}

TEST(ReplyTypes, ReadValues) {
  const Json tools = Json::parse(R"([{"function": {"name": "f", "parameters": {
      "$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"},
      "b": {"enum": ["x", 1]}}, "additionalProperties": {"type": "boolean"}}}}])");
  const std::pair<const char*, const char*> cases[] = {
      {"a>7", R"({"a": 7})"},       {"a>-99999999999999999999", R"({"a": -99999999999999999999})"},
      {"a>1.0", R"({"a": 1.0})"},   {"a>1.5", R"({"a": "1.5"})"},
      {"b>1", R"({"b": 1})"},       {"b>x", R"({"b": "x"})"},
      {"c>True", R"({"c": true})"}, {"c>7", R"({"c": "7"})"},
  };
  for (const auto& [text, arguments] : cases) {
    const std::string call = std::string("<tool_call><function=f><parameter=") + text +
                             "</parameter></function></tool_call>";
    const Reply reply =
        parse_pieces({ToolFormat::qwen3_coder, ReasoningFormat::none}, {call}, {.tools = tools});
    ASSERT_EQ(reply.calls.size(), 1u) << text;
    EXPECT_EQ(reply.calls[0].arguments, arguments);
  }
}

}  // namespace
}  // namespace ringkeep::prompt
