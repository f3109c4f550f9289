// Calls in the formats that are not JSON: what the grammar writes is what the reply parser reads.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "grammar/call_format.h"

namespace ringkeep::grammar {
namespace {

using Json = nlohmann::ordered_json;
using prompt::ToolFormat;

constexpr ToolFormat kAll[] = {ToolFormat::hermes,       ToolFormat::qwen3_coder,
                               ToolFormat::llama3_json,  ToolFormat::mistral,
                               ToolFormat::mistral_args, ToolFormat::functiongemma,
                               ToolFormat::gemma4,       ToolFormat::deepseek_v3,
                               ToolFormat::deepseek_v31, ToolFormat::harmony};

Json parameters() {
  return Json::parse(R"({"type": "object", "properties": {
      "city": {"type": "string"},
      "days": {"type": "integer", "minimum": 1, "maximum": 14},
      "units": {"enum": ["metric", "imperial"]},
      "exact": {"type": "boolean"},
      "where": {"type": "object", "properties": {"lat": {"type": "number"}, "name": {"type": "string"}},
                "required": ["lat"]},
      "list": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2}},
    "required": ["city", "days"], "additionalProperties": false})");
}
std::vector<Tool> tools() { return {{"get_weather", parameters()}, {"now", nullptr}}; }

GrammarPtr calls(ToolFormat format, bool parallel = false) {
  return tool_calls(call_format(format), tools(), {.parallel = parallel}).value();
}
GrammarPtr arguments_of(const char* schema, ToolFormat format = ToolFormat::qwen3_coder) {
  auto grammar = tool_arguments(Json::parse(schema), call_format(format).arguments);
  EXPECT_TRUE(grammar.ok()) << schema << ": " << grammar.error().message;
  return grammar.ok() ? *grammar : Grammar::literal("");
}
std::string parameter(const std::string& name, const std::string& value) {
  return "<parameter=" + name + ">\n" + value + "\n</parameter>\n";
}
std::string coder(const std::string& name, const std::string& arguments) {
  return "<tool_call>\n<function=" + name + ">\n" + arguments + "</function>\n</tool_call>";
}
std::string gemma(const std::string& name, const std::string& arguments) {
  return "<start_function_call>call:" + name + arguments + "<end_function_call>";
}

TEST(ToolArguments, Xml) {
  const auto grammar = calls(ToolFormat::qwen3_coder);
  const std::string city = parameter("city", "Köln\n</p> \"a\""), days = parameter("days", "3");
  for (const std::string& good :
       {coder("get_weather", city + days), coder("now", ""), coder("now", parameter("zone", "1")),
        coder("get_weather", city + days + parameter("units", "metric")),
        coder("get_weather", parameter("city", "") + days + parameter("exact", "true")),
        coder("get_weather", city + days + parameter("where", R"({"lat": 1.5, "name": "<b>"})") +
                                 parameter("list", R"(["a", "<\/parameter>"])"))})
    EXPECT_TRUE(accepts(grammar, good)) << good;
  for (const std::string& bad :
       {coder("get_weather", city), coder("get_weather", days), coder("get_weathe", city + days),
        coder("other", ""), coder("get_weather", days + city), "x" + coder("now", ""),
        coder("get_weather", city + parameter("days", "15")),
        coder("get_weather", city + parameter("days", "many")),
        coder("get_weather", city + parameter("days", "\"3\"")),
        coder("get_weather", city + days + parameter("units", "kelvin")),
        coder("get_weather", city + days + parameter("exact", "True")),
        coder("get_weather", city + days + parameter("where", R"({"name": "x"})")),
        coder("get_weather", city + days + parameter("list", "[]")),
        coder("get_weather", city + days + parameter("list", R"(["a", "b", "c"])")),
        coder("get_weather", city + days + parameter("list", R"(["</parameter>"])")),
        coder("get_weather", city + days + parameter("more", "x")),
        coder("get_weather", city + city + days),
        coder("get_weather", parameter("city", "a</parameter>b") + days),
        coder("now", "") + coder("now", "")})
    EXPECT_FALSE(accepts(grammar, bad)) << bad;
  EXPECT_TRUE(accepts(calls(ToolFormat::qwen3_coder, true),
                      coder("now", "") + "\n" + coder("get_weather", city + days)));
}

TEST(ToolArguments, Marked) {
  const auto grammar = calls(ToolFormat::functiongemma);
  const std::string city = "city:<escape>Köln, {\"a\":\n<esc<escape>", days = ",days:3";
  for (const std::string& good :
       {gemma("get_weather", "{" + city + days + "}"), gemma("now", "{}"),
        gemma("now", "{zone:<escape>x<escape>,n:[1,{a:null}],o:{}}"),
        gemma("get_weather", "{city:<escape><escape>" + days + ",units:<escape>metric<escape>}"),
        gemma("get_weather", "{" + city + days +
                                 ",exact:true,where:{lat:-1.5,name:<escape>y<escape>},"
                                 "list:[<escape>a<escape>,<escape>b<escape>]}")})
    EXPECT_TRUE(accepts(grammar, good)) << good;
  for (const std::string& bad :
       {gemma("get_weather", "{" + city + "}"), gemma("get_weather", "{days:3}"),
        gemma("other", "{}"), gemma("get_weather", "{" + city + ",days:0}"),
        gemma("get_weather", "{" + city + ", days:3}"),
        gemma("get_weather", "{\"city\":\"a\",\"days\":3}"),
        gemma("get_weather", "{city:Paris,days:3}"),
        gemma("get_weather", "{city:<escape>a<escape>b<escape>,days:3}"),
        gemma("get_weather", "{" + city + days + ",units:<escape>kelvin<escape>}"),
        gemma("get_weather", "{" + city + days + ",units:metric}"),
        gemma("get_weather", "{" + city + days + ",where:{}}"),
        gemma("get_weather", "{" + city + days + ",list:[]}"),
        gemma("get_weather", "{" + city + days + ",more:1}")})
    EXPECT_FALSE(accepts(grammar, bad)) << bad;

  // The mark may be a control token; then it is one on both sides, and its text is in no string.
  const auto gemma4 = calls(ToolFormat::gemma4);
  const auto call = [](const std::string& begin, const std::string& end) {
    return "<|tool_call>call:get_weather{city:" + begin + "a" + end + ",days:3}<tool_call|>";
  };
  const std::string mark = "<|\"|>", control = "\xFF" + mark + "\xFF";
  EXPECT_TRUE(accepts(gemma4, call(mark, mark)));
  EXPECT_TRUE(accepts(gemma4, call(control, control)));
  EXPECT_FALSE(accepts(gemma4, call(mark, control)));
  EXPECT_FALSE(accepts(gemma4, call(control + mark, control)));
}

// A name that cannot stand bare stands between marks.
TEST(ToolArguments, Names) {
  const char* schema = R"({"properties": {"a b": {"type": "integer"}, "é-1": {"type": "integer"},
                                          "c:d": {"type": "object"}}})";
  const auto marked = arguments_of(schema, ToolFormat::gemma4);
  EXPECT_TRUE(accepts(marked, R"({<|"|>a b<|"|>:1,é-1:2,<|"|>c:d<|"|>:{x:1}})"));
  EXPECT_FALSE(accepts(marked, "{a b:1}"));
  EXPECT_TRUE(accepts(arguments_of(schema), parameter("a b", "1") + parameter("c:d", "{}")));
  for (const char* name : {"a>b", "<a", "a\\nb", " a", ""}) {
    const auto refused =
        tool_arguments(Json::parse(fmt::format(R"({{"properties": {{"{}": {{}}}}}})", name)),
                       call_format(ToolFormat::qwen3_coder).arguments);
    EXPECT_FALSE(refused.ok()) << name;
  }
  const auto more = arguments_of(R"({"properties": {"a": {"type": "null"}},
                                     "additionalProperties": {"type": "integer"}})");
  EXPECT_TRUE(accepts(more, parameter("a", "null") + parameter("b", "1") + parameter("aa", "2")));
  EXPECT_FALSE(accepts(more, parameter("a", "1")));
  EXPECT_FALSE(accepts(more, parameter("b", "x")));
}

// A string that would be read as another type of its parameter is not written.
TEST(ToolArguments, StringsThatLookLikeOtherTypes) {
  const auto nullable = arguments_of(R"({"properties": {"a": {"type": ["string", "null"]}}})");
  for (const char* good : {"null", "nul", "x null", "3", "{}", ""})
    EXPECT_TRUE(accepts(nullable, parameter("a", good))) << good;
  for (const char* bad : {"None", " null ", "null\n"})
    EXPECT_FALSE(accepts(nullable, parameter("a", bad))) << bad;
  const auto either = arguments_of(
      R"({"properties": {"a": {"anyOf": [{"type": "string", "maxLength": 5},
                                         {"type": "integer", "minimum": 100}]}}})");
  for (const char* good : {"100", "x", "1x", "- 1", "12345678"})
    EXPECT_TRUE(accepts(either, parameter("a", good))) << good;
  for (const char* bad : {"99", "1.5", "1e3", " 7", "abcdef"})
    EXPECT_FALSE(accepts(either, parameter("a", bad))) << bad;
  const auto any = arguments_of(R"({"properties": {"a": {}}})");
  for (const char* good : {"x", R"({"a": [1]})", "[]", "a{", ""})
    EXPECT_TRUE(accepts(any, parameter("a", good))) << good;
  for (const char* bad : {"{", "[1", " {}", "{a}"})
    EXPECT_FALSE(accepts(any, parameter("a", bad))) << bad;
  const auto listed = arguments_of(R"({"properties": {"a": {"enum": ["x", "1", 2, "null"]}}})");
  for (const char* good : {"x", "2", "null"})
    EXPECT_TRUE(accepts(listed, parameter("a", good))) << good;
  for (const char* bad : {"1", "\"x\""}) EXPECT_FALSE(accepts(listed, parameter("a", bad))) << bad;
}

TEST(ToolArguments, BoundsOfStrings) {
  for (const ToolFormat format : {ToolFormat::qwen3_coder, ToolFormat::functiongemma}) {
    const bool xml = format == ToolFormat::qwen3_coder;
    const auto one = [&](const std::string& value) {
      return xml ? parameter("a", value) : "{a:<escape>" + value + "<escape>}";
    };
    const auto counted = arguments_of(
        R"({"properties": {"a": {"type": "string", "minLength": 2, "maxLength": 3}}})", format);
    for (const char* good : {"ab", "😀é", "\"\\n", "</p"}) EXPECT_TRUE(accepts(counted, one(good)));
    for (const char* bad : {"a", "abcd", "\xFF\xFF"}) EXPECT_FALSE(accepts(counted, one(bad)));
    const auto pattern = arguments_of(
        R"({"properties": {"a": {"type": "string", "pattern": "^<[^b]*>$"}}})", format);
    EXPECT_TRUE(accepts(pattern, one("<a\n\"\\>")));
    EXPECT_FALSE(accepts(pattern, one("<b>")));
    EXPECT_FALSE(accepts(pattern, one(xml ? "</parameter>" : "<escape>")));
    const auto date =
        arguments_of(R"({"properties": {"a": {"type": "string", "format": "date"}}})", format);
    EXPECT_TRUE(accepts(date, one("2024-02-29")));
    EXPECT_FALSE(accepts(date, one("2023-02-29")));
    const auto constant =
        tool_arguments(Json::parse(xml ? R"({"properties": {"a": {"const": "x</parameter>"}}})"
                                       : R"({"properties": {"a": {"const": "x<escape>"}}})"),
                       call_format(format).arguments);
    ASSERT_FALSE(constant.ok());
    EXPECT_NE(constant.error().message.find("/properties/a"), std::string::npos);
  }
  // Within JSON that stands in XML: lengths, constants and names keep clear of the mark, too.
  const auto inner = arguments_of(R"({"properties": {"a": {"type": "array", "prefixItems": [
      {"type": "string", "maxLength": 14}, {"const": "</parameter>"}, {"type": "object",
       "properties": {"b": {}}, "additionalProperties": true}]}}})");
  EXPECT_TRUE(accepts(inner, parameter("a", R"(["<\/parameter>x","<\/parameter>",{"c":"</p"}])")));
  EXPECT_TRUE(accepts(inner, parameter("a", R"(["</parameter"])")));
  EXPECT_FALSE(accepts(inner, parameter("a", R"(["</parameter>"])")));
  EXPECT_FALSE(accepts(inner, parameter("a", R"(["<\/parameter>xyz"])")));
  EXPECT_FALSE(accepts(inner, parameter("a", R"(["","<\/parameter>",{"</parameter>":1}])")));
  // Long bounds cost nothing where a string stands alone.
  const auto far = arguments_of(
      R"({"properties": {"a": {"type": "string", "minLength": 2000, "maxLength": 3000}}})");
  const auto long_text = [](size_t size) {
    std::string text;
    for (size_t i = 0; i < size; ++i) text += i % 3 == 0 ? "<" : i % 3 == 1 ? "/" : "é";
    return parameter("a", text);
  };
  EXPECT_FALSE(accepts(far, long_text(1999)));
  EXPECT_TRUE(accepts(far, long_text(2000)));
  EXPECT_TRUE(accepts(far, long_text(3000)));
  EXPECT_FALSE(accepts(far, long_text(3001)));
  const auto refused = tool_arguments(
      Json::parse(R"({"properties": {"a": {"type": ["string", "null"], "maxLength": 1000000}}})"),
      call_format(ToolFormat::qwen3_coder).arguments);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("/properties/a"), std::string::npos);
}

TEST(ToolArguments, AlternativesAndReferences) {
  const auto grammar = arguments_of(R"({"anyOf": [
      {"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"]},
      {"properties": {"b": {"$ref": "#/$defs/t"}}, "required": ["b"]}],
    "$defs": {"n": {"type": "integer"}, "t": {"type": "object", "properties":
      {"next": {"$ref": "#/$defs/t"}}}}})");
  EXPECT_TRUE(accepts(grammar, parameter("a", "1")));
  EXPECT_TRUE(accepts(grammar, parameter("b", R"({"next": {"next": {}}})")));
  EXPECT_FALSE(accepts(grammar, parameter("a", "1") + parameter("b", "{}")));
  EXPECT_FALSE(accepts(grammar, ""));
  for (const char* schema : {R"({"type": "string"})", R"({"enum": [{"a": 1}]})", "false"})
    EXPECT_FALSE(
        tool_arguments(Json::parse(schema), call_format(ToolFormat::qwen3_coder).arguments).ok());
}

// Random texts of each format's grammar: the reply parser reads each as one call of a tool that
// there is, and its arguments as what the JSON grammar of the same schema allows.
TEST(ToolArguments, WhatIsWrittenIsReadBack) {
  std::mt19937_64 random(11);
  const std::vector<Json> schemas = {
      parameters(),
      nullptr,
      Json::parse(R"({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                      "b": {"type": ["string", "integer", "boolean", "array"], "items": {"enum": ["é\"", 1]}},
                      "c": {"enum": ["x", "null", 3, null, true]}}, "required": ["b"]})"),
      Json::parse(R"({"properties": {"a": {"$ref": "#/$defs/p"}, "t": {"type": "array", "items":
                      {"$ref": "#/$defs/p"}}}, "$defs": {"p": {"type": "object", "properties":
                      {"x": {"type": "integer"}, "s": {"type": "string", "minLength": 1,
                       "maxLength": 20}}, "required": ["x"]}}, "required": ["a", "t"]})"),
      Json::parse(R"({"properties": {"s": {"type": "string", "pattern": "^<?/?[a-p]*>?$"},
                      "n": {"type": "number", "minimum": -2.5, "maximum": 99}},
                      "additionalProperties": {"type": ["boolean", "string"]}})"),
      Json::parse(R"({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                      {"properties": {"b": {"oneOf": [{"const": "u"}, {"type": "boolean"}]}}}]})"),
  };
  for (const ToolFormat format : kAll) {
    const Vocabulary vocabulary = call_vocabulary(format);
    for (const Json& schema : schemas) {
      const std::vector<Tool> tools = {{"get_it", schema}, {"now", nullptr}};
      const auto grammar = tool_calls(call_format(format), tools, {.parallel = false});
      ASSERT_TRUE(grammar.ok()) << schema << ": " << grammar.error().message;
      const GrammarPtr judge =
          tool_arguments(schema, {}, {.whitespace = Grammar::JsonOptions::Whitespace::compact})
              .value();
      const Matcher start(*grammar, vocabulary.trie);
      int ended = 0, judged = 0;
      for (int i = 0; i < 30; ++i) {
        const Walk walk = call_walk(start, vocabulary, format, random);
        ASSERT_FALSE(walk.stuck) << walk.text;
        if (!walk.ended) continue;
        ++ended;
        const auto call = read_call(format, walk.text, tools);
        ASSERT_TRUE(call.has_value()) << walk.text;
        ASSERT_TRUE(call->name == "get_it" || call->name == "now") << walk.text;
        const Json arguments = Json::parse(call->arguments, nullptr, false);
        ASSERT_TRUE(arguments.is_object()) << walk.text << "\n" << call->arguments;
        if (call->name == "now" || arguments.dump().find("e+") != std::string::npos) continue;
        // Written anew: members that repeat are one, numbers have one spelling.
        if (schema.is_null() || schema.contains("additionalProperties")) continue;
        ++judged;
        ASSERT_TRUE(accepts(judge, arguments.dump())) << walk.text << "\n" << arguments.dump();
      }
      EXPECT_GT(ended, 10) << prompt::tool_format_name(format) << " " << schema;
    }
  }
}

}  // namespace
}  // namespace ringkeep::grammar
