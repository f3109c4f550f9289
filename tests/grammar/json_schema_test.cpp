// JSON schemas against jsonschema (goldens), by hand where we write less than a schema allows, and
// by brute force for ranges of numbers.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "grammar/golden.h"
#include "grammar/grammar_data.h"
#include "grammar/json_numbers.h"
#include "grammar/vocabulary.h"

namespace ringkeep::grammar {
namespace {

using Json = nlohmann::ordered_json;

GrammarPtr schema(const std::string& text) {
  auto grammar = Grammar::from_json_schema(text);
  EXPECT_TRUE(grammar.ok()) << text << ": " << grammar.error().message;
  return grammar.ok() ? *grammar : Grammar::literal("");
}

void refuses(const std::string& text, std::initializer_list<std::string> mentions) {
  const auto grammar = Grammar::from_json_schema(text);
  ASSERT_FALSE(grammar.ok()) << text;
  EXPECT_EQ(grammar.error().kind, ErrorKind::usage);
  for (const std::string& mention : mentions)
    EXPECT_NE(grammar.error().message.find(mention), std::string::npos)
        << text << ": " << grammar.error().message;
}

TEST(JsonSchema, JudgesAsJsonschemaDoes) {
  const Json cases = golden("schemas.json");
  ASSERT_GT(cases.size(), 80u);
  for (const Json& one : cases) {
    const auto grammar = Grammar::from_json_schema(one["schema"], {});
    ASSERT_TRUE(grammar.ok()) << one["schema"] << ": " << grammar.error().message;
    for (const std::string document : one["valid"])
      EXPECT_TRUE(accepts(*grammar, document)) << one["schema"] << " on " << document;
    for (const std::string document : one["invalid"])
      EXPECT_FALSE(accepts(*grammar, document)) << one["schema"] << " on " << document;
  }
}

// What is chosen by a random walk is JSON, and all of it can be reached from the schema's goldens.
TEST(JsonSchema, WalksNeverGetStuck) {
  const Vocabulary vocabulary;
  std::mt19937_64 random(6);
  for (const Json& one : golden("schemas.json")) {
    const Matcher start(Grammar::from_json_schema(one["schema"], {}).value(), vocabulary.trie);
    for (int i = 0; i < 8; ++i) {
      const Walk walk = random_walk(start, vocabulary, random, 120);
      ASSERT_FALSE(walk.stuck) << one["schema"] << ": " << walk.text;
      if (walk.ended) {
        EXPECT_TRUE(Json::accept(walk.text)) << one["schema"] << ": " << walk.text;
      }
    }
  }
}

TEST(JsonSchema, Ranges) {
  for (int low = -113; low <= 113; low += 7) {
    for (int high = low - 1; high <= 113; high += 11) {
      for (const bool exclusive : {false, true}) {
        ExprPool pool;
        const auto bound = [&](int at) { return Bound{*decimal(Json(at)), exclusive}; };
        const ExprId root = integers(pool, bound(low), bound(high));
        const auto grammar = finish(std::move(pool), root);
        for (int value = -130; value <= 130; ++value) {
          const bool inside =
              exclusive ? value > low && value < high : value >= low && value <= high;
          ASSERT_EQ(grammar.ok() && accepts(*grammar, std::to_string(value)), inside)
              << value << " in " << low << ".." << high;
        }
        if (!grammar.ok()) continue;
        for (const char* bad : {"-0", "00", "01", "-01", "+1", "", "-", "1.0"})
          ASSERT_FALSE(accepts(*grammar, bad)) << bad;
      }
    }
  }
}

TEST(JsonSchema, DecimalRanges) {
  const std::vector<double> ends = {-10.5, -2, -1.25, -0.3, 0,  0.05, 0.3,
                                    0.31,  1,  1.25,  9.99, 10, 100.5};
  for (const double low : ends) {
    for (const double high : ends) {
      if (low > high) continue;
      for (int exclusive = 0; exclusive < 4; ++exclusive) {
        ExprPool pool;
        const ExprId root = numbers(pool, Bound{*decimal(Json(low)), exclusive % 2 == 1},
                                    Bound{*decimal(Json(high)), exclusive / 2 == 1});
        const auto grammar = finish(std::move(pool), root);
        for (int hundredths = -1100; hundredths <= 1100; hundredths += 1) {
          const Decimal value = *decimal(Json(hundredths / 100.0));
          const int from = compare(value, *decimal(Json(low))),
                    to = compare(value, *decimal(Json(high)));
          const bool inside = (exclusive % 2 == 1 ? from > 0 : from >= 0) &&
                              (exclusive / 2 == 1 ? to < 0 : to <= 0);
          ASSERT_EQ(grammar.ok() && accepts(*grammar, value.text()), inside)
              << value.text() << " in " << low << ".." << high << " " << exclusive;
          if (inside && !value.fraction.empty()) {
            ASSERT_TRUE(accepts(*grammar, value.text() + "0")) << value.text();
          }
        }
        if (!grammar.ok()) continue;
        for (const char* bad : {"-0", "-0.0", "00", "01.5", ".5", "1.", "", "-", "1e0"})
          ASSERT_FALSE(accepts(*grammar, bad)) << bad;
      }
    }
  }
}

TEST(JsonSchema, DecimalsAreExact) {
  const auto text = [](const Json& number) { return decimal(number)->text(); };
  EXPECT_EQ(text(0.1), "0.1");
  EXPECT_EQ(text(1e-7), "0.0000001");
  EXPECT_EQ(text(-1.5e21), "-1500000000000000000000");
  EXPECT_EQ(text(18446744073709551615u), "18446744073709551615");
  EXPECT_EQ(text(-0.0), "0");
  EXPECT_FALSE(decimal(Json(1e301)).has_value());
  const auto big =
      schema(R"({"type": "integer", "minimum": 9007199254740993, "maximum": 9007199254740995})");
  EXPECT_FALSE(accepts(big, "9007199254740992"));
  EXPECT_TRUE(accepts(big, "9007199254740993"));
  EXPECT_FALSE(accepts(big, "9007199254740996"));
}

TEST(JsonSchema, WritesMembersAsDeclared) {
  const auto grammar = schema(
      R"({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "integer"}}})");
  EXPECT_TRUE(accepts(grammar, R"({"b":1,"a":2})"));
  EXPECT_FALSE(accepts(grammar, R"({"a":2,"b":1})"));
  EXPECT_FALSE(accepts(grammar, R"({"b":1,"x":2})"));  // closed unless additionalProperties says so
  const auto nothing =
      schema(R"({"type": "object", "properties": {}})");  // of a function's parameters
  EXPECT_TRUE(accepts(nothing, "{}"));
  EXPECT_FALSE(accepts(nothing, R"({"b":1})"));
  const auto open = schema(
      R"({"type": "object", "properties": {"b": {"type": "integer"}}, "additionalProperties": true})");
  EXPECT_TRUE(accepts(open, R"({"b":1,"x":{"b":"y"},"bb":2})"));
  EXPECT_FALSE(accepts(open, R"({"x":1,"b":1})"));
  EXPECT_FALSE(accepts(open, R"({"b":1,"b":"again"})"));
  EXPECT_FALSE(accepts(open, R"({"b":1,"\u0062":"again"})"));
}

TEST(JsonSchema, WhiteSpace) {
  const std::string text =
      R"({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}})";
  const auto bounded = schema(text);
  for (const char* good :
       {R"({"a":[1,2]})", R"({"a": [1, 2]})", "{\n  \"a\": [\n    1,\n    2\n  ]\n}", "{}", "{ }"})
    EXPECT_TRUE(accepts(bounded, good)) << good;
  for (const char* bad :
       {R"({"a":  [1]})", R"({"a" : [1]})", R"({"a":[1 ,2]})", "\n{}", "{} ", "{\n\n}", "{\t}"})
    EXPECT_FALSE(accepts(bounded, bad)) << bad;
  const auto compact =
      Grammar::from_json_schema(text, {Grammar::JsonOptions::Whitespace::compact}).value();
  EXPECT_TRUE(accepts(compact, R"({"a":[1,2]})"));
  EXPECT_FALSE(accepts(compact, R"({"a": [1,2]})"));
}

TEST(JsonSchema, StringsAreJson) {
  const auto any = schema(R"({"type": "string"})");
  for (const char* good :
       {R"("\u00e9\/\b\"")", R"("\ud83d\ude00")", R"("😀")", R"("\uD7FF\uE000\uffff")"})
    EXPECT_TRUE(accepts(any, good)) << good;
  for (const char* bad : {R"("\ud83d")", R"("\ude00")", R"("\ud83dx")", R"("\x")", "\"\n\"",
                          R"("\u00e")", "\"\xFF\""})
    EXPECT_FALSE(accepts(any, bad)) << bad;
  const auto two = schema(R"({"type": "string", "minLength": 2, "maxLength": 2})");
  for (const char* good : {R"("ab")", R"("😀é")", R"("\ud83d\ude00\n")"})
    EXPECT_TRUE(accepts(two, good)) << good;
  for (const char* bad : {R"("a")", R"("abc")", R"("\ud83d\ude00")"})
    EXPECT_FALSE(accepts(two, bad)) << bad;
  // A pattern is about the string, not about its escapes.
  const auto quoted = schema(R"({"type": "string", "pattern": "^[^a-z]{3}$"})");
  EXPECT_TRUE(accepts(quoted, R"("\"\\\n")"));
  EXPECT_FALSE(accepts(quoted, R"("\"\\")"));
}

TEST(JsonSchema, RefusesByPointer) {
  refuses(R"({"properties": {"a/b": {"not": {}}}})", {"/properties/a~1b/not", "supported keyword"});
  for (const char* keyword :
       {"if", "contains", "patternProperties", "propertyNames", "dependentRequired",
        "unevaluatedProperties", "$dynamicRef", "minContains", "typo"})
    refuses(fmt::format(R"({{"type": "object", "{}": {{}}}})", keyword),
            {std::string("/") + keyword});
  refuses(R"({"uniqueItems": true})", {"/uniqueItems"});
  refuses(R"({"type": "strin"})", {"/type", "strin"});
  refuses(R"({"type": ["string", 3]})", {"/type/1"});
  refuses(R"({"type": "string", "format": "postcode"})", {"/format", "postcode"});
  refuses(R"({"type": "integer", "format": "postcode"})", {"/format"});
  refuses(R"x({"type": "string", "pattern": "a(?=b)"})x", {"/pattern", "look-ahead"});
  refuses(R"({"type": "string", "minLength": -1})", {"/minLength", "-1"});
  refuses(R"({"type": "string", "minLength": "x"})", {"/minLength"});
  refuses(R"({"minimum": "x"})", {"/minimum"});
  refuses(R"({"exclusiveMinimum": true})", {"/exclusiveMinimum", "true"});
  refuses(R"({"multipleOf": 0})", {"/multipleOf"});
  refuses(R"({"multipleOf": 501})", {"/multipleOf", "500"});
  EXPECT_TRUE(accepts(schema(R"({"type": "integer", "multipleOf": 500})"), "-10500"));
  EXPECT_FALSE(accepts(schema(R"({"type": "integer", "multipleOf": 500})"), "10501"));
  refuses(R"({"type": "number", "multipleOf": 0.3})", {"/multipleOf"});
  refuses(R"({"enum": []})", {"/enum"});
  refuses(R"({"anyOf": {}})", {"/anyOf"});
  refuses(R"({"items": [{}]})", {"/items", "prefixItems"});
  refuses(R"({"required": "a"})", {"/required"});
  refuses(R"({"properties": []})", {"/properties"});
  const std::string one(901, 'x');  // its characters would be a tree of that depth
  refuses(R"({"properties": {")" + one + R"(": {}}, "additionalProperties": true})", {"900"});
  std::string many = R"({"additionalProperties": true, "properties": {"a": {})";
  for (int i = 100; i < 200; ++i) many += fmt::format(R"(, "{}{}": {{}})", i, one.substr(0, 500));
  refuses(many + "}}", {"40000"});
  refuses(R"({"additionalProperties": 3})", {"/additionalProperties"});
  refuses(R"({"$ref": "other.json"})", {"/$ref", "other.json"});
  refuses(R"({"$ref": "#/$defs/none"})", {"/$ref", "nothing there"});
  refuses(R"({"$ref": "#"})", {"$ref"});
  refuses(R"({"allOf": [{"$ref": "#"}]})", {"comes to an end"});
  refuses(R"({"anyOf": [{"$ref": "#"}]})", {"left-recursive"});
  refuses(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
          {"none that ends"});
  refuses(R"({"type": "string", "minLength": 3, "maxLength": 2})", {"none that ends"});
  refuses(R"({"allOf": [{"type": "string"}, {"type": "integer"}]})", {"none that ends"});
  refuses("3", {"the root"});
  refuses("false", {"none that ends"});
  refuses("{", {"expected JSON"});
  refuses("{\"a\": \"\xFF\"}", {"expected JSON"});
  refuses(std::string(300, '[') + std::string(300, ']'), {"levels"});
  refuses(R"({"type": "object", "minProperties": 2, "properties": {"a": {}}})", {"minProperties"});
  refuses(R"({"type": "object", "maxProperties": 1})", {"maxProperties"});
}

// Schemas that are made to take long: an error or a grammar, soon.
TEST(JsonSchema, HostileSchemasEnd) {
  std::string wide = R"({"type": "object", "properties": {)";
  for (int i = 0; i < 4'000; ++i)
    wide += fmt::format("{}\"p{}\": {{\"type\": \"integer\"}}", i == 0 ? "" : ",", i);
  const auto grammar = schema(wide + "}}");
  EXPECT_TRUE(accepts(grammar, R"({"p0": 1, "p7": 2, "p3999": 3})"));
  refuses(wide + R"(}, "allOf": [)" + wide + "}}]}" + std::string(1 << 20, ' '), {"bytes"});

  std::string alternatives = R"({"allOf": [)";
  for (int i = 0; i < 12; ++i)
    alternatives += fmt::format("{}{{\"anyOf\": [{{\"minimum\": {}}}, {{\"maximum\": {}}}]}}",
                                i == 0 ? "" : ",", i, i);
  refuses(alternatives + "]}", {"combinations"});

  std::string doubling = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 25; ++i)
    doubling += fmt::format(
        "\"d{}\": {{\"allOf\": [{{\"$ref\": \"#/$defs/d{}\"}}, {{\"$ref\": \"#/$defs/d{}\"}}]}},",
        i, i + 1, i + 1);
  refuses(doubling + R"("d25": {"type": "integer"}}})", {"smaller schema"});

  std::string names = R"({"enum": [)";
  for (int i = 0; i < 20'000; ++i) names += fmt::format("{}\"name {}\"", i == 0 ? "" : ",", i * 7);
  EXPECT_TRUE(accepts(schema(names + "]}"), "\"name 70007\""));
  std::string members = "{";
  for (int i = 0; i < 20'000; ++i) members += fmt::format("{}\"x-{}\": 1", i == 0 ? "" : ",", i);
  refuses(members + "}", {"members"});
  refuses(R"({"type": "string", "pattern": "^(a|b)*a(a|b){14}$", "minLength": 100})",
          {"/pattern", "states"});
  refuses(R"({"type": "string", "format": "date", "pattern": "x", "maxLength": 4000000000})",
          {"none that ends"});
}

}  // namespace
}  // namespace ringkeep::grammar
