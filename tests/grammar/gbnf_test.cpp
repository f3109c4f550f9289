#include <gtest/gtest.h>

#include "grammar/grammar.h"
#include "grammar/matcher.h"

namespace ringkeep::grammar {
namespace {

TEST(Gbnf, ReadsChess) {
  const auto grammar = Grammar::from_gbnf(R"(
root ::= (
    # it must start with the characters "1. " followed by a sequence
    "1. " move " " move "\n"
    ([1-9] [0-9]? ". " move " " move "\n")+
)
move ::= (pawn | nonpawn | castle) [+#]?
# piece type, optional file/rank, optional capture, dest file & rank
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
)");
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  EXPECT_TRUE(accepts(*grammar, "1. e4 e5\n2. Nf3 O-O-O+\n"));
  EXPECT_FALSE(accepts(*grammar, "1. e4 e5\n"));
  EXPECT_FALSE(accepts(*grammar, "1. e9 e5\n2. Nf3 O-O-O+\n"));
}

TEST(JsonSchema, Smoke) {
  const auto grammar = Grammar::from_json_schema(R"({
    "type": "object", "properties": {"name": {"type": "string", "maxLength": 5},
    "age": {"type": "integer", "minimum": 0, "maximum": 130}, "kids": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"], "additionalProperties": false})");
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  for (const char* good :
       {R"({"name":"Bob"})", R"({ "name": "Bob", "age": 130 })", R"({"name":"Bob","kids":[]})",
        R"({"name":"Bob","kids":[{"name":"\u00e9a\ud83d\ude00éa"}]})"})
    EXPECT_TRUE(accepts(*grammar, good)) << good;
  for (const char* bad : {R"({})", R"({"name":"Bob","age":131})", R"({"age":3,"name":"Bob"})",
                          R"({"name":"Bobbyy"})", R"({"name":"Bob",})"})
    EXPECT_FALSE(accepts(*grammar, bad)) << bad;
}

}  // namespace
}  // namespace ringkeep::grammar
namespace ringkeep::grammar {
TEST(FreeText, Smoke) {
  const auto call =
      Grammar::from_json_schema(
          R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})")
          .value();
  const auto end = Grammar::literal("</t>");
  const std::vector<GrammarPtr> parts = {call, end};
  Grammar::FreeText free;
  free.triggers.push_back({"<t>", false, Grammar::sequence(parts).value()});
  const auto g = Grammar::free_text(free).value();
  EXPECT_TRUE(accepts(g, "hello"));
  EXPECT_TRUE(accepts(g, "hello <t"));
  EXPECT_FALSE(accepts(g, "hello <t>"));
  EXPECT_TRUE(accepts(g, "hello <<t>{\"a\":1}</t> more"));
  EXPECT_TRUE(accepts(g, "hello <<t>{\"a\":1}</t><t>{\"a\":1}</t>"));
  EXPECT_FALSE(accepts(g, "hello <t>x"));
}
}  // namespace ringkeep::grammar
