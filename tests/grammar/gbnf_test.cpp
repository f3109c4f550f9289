// GBNF: what llama.cpp's guide describes, and what is refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "grammar/vocabulary.h"

namespace ringkeep::grammar {
namespace {

GrammarPtr gbnf(const std::string& source) {
  auto grammar = Grammar::from_gbnf(source);
  EXPECT_TRUE(grammar.ok()) << source << ": " << grammar.error().message;
  return grammar.ok() ? *grammar : Grammar::literal("");
}

void judges(const std::string& source, std::initializer_list<const char*> good,
            std::initializer_list<const char*> bad) {
  const GrammarPtr grammar = gbnf(source);
  for (const char* text : good) EXPECT_TRUE(accepts(grammar, text)) << source << " on " << text;
  for (const char* text : bad) EXPECT_FALSE(accepts(grammar, text)) << source << " on " << text;
}

TEST(Gbnf, ReadsItsNotation) {
  judges("root ::= \"a\" [b-d] . ", {"abx", "adé", "ab\n"}, {"ab", "aex", "abxx"});
  judges("root ::= [^a-c\\n]+", {"xyz", "é "}, {"", "a", "x\n"});
  judges("root ::= \"\\x41\\u00e9\\U0001F600\\t\\\"\\\\\" [\\]\\[]", {"Aé😀\t\"\\]"},
         {"Aé😀\t\"\\a"});
  judges("root ::= [a-] [-a] [\\^]", {"a-^", "-a^"}, {"b-^"});
  judges("root ::= \"ab\"* \"c\"+ \"d\"?", {"c", "ababccd"}, {"aabc", "abd"});
  judges("root ::= [0-9]{3} \"-\" [0-9]{2,} \",\" [0-9]{1,2} \".\" [0-9]{,2}",
         {"123-4567,1.", "123-45,12.99"}, {"12-45,1.", "123-4,1.", "123-45,123.", "123-45,1.999"});
  judges("root ::= (\"a\" | \"b\" (\"c\" | \"d\")?)+ # a comment\n", {"a", "bcba", "bd"},
         {"", "c"});
  judges("root ::= (  # newlines within a group\n  \"a\"\n  | \"b\"\n)\n", {"a", "b"}, {"ab"});
  judges("root ::= \"a\" |\n  \"b\"\n", {"a", "b"}, {"c"});
  judges("# first\n\nroot  ::=\n  x-1 x_2\r\nx-1 ::= \"p\"\r\nx_2 ::= \"q\"", {"pq"}, {"p"});
  judges("root ::= \"a\" |", {"a", ""}, {"b"});
  judges("root ::= \"\"", {""}, {"a"});
  judges("root ::= \"x\" root \"y\" | \"z\"", {"z", "xxzyy"}, {"xzyy", "xxzy"});
  judges("root ::= a \"x\"\na ::= b?\nb ::= \"b\" a", {"x", "bbx"}, {"b"});
}

TEST(Gbnf, ReadsChess) {
  judges(R"(
root ::= (
    # it must start with the characters "1. " followed by a sequence
    "1. " move " " move "\n"
    ([1-9] [0-9]? ". " move " " move "\n")+
)
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
)",
         {"1. e4 e5\n2. Nf3 O-O-O+\n"}, {"1. e4 e5\n", "1. e9 e5\n2. Nf3 O-O-O+\n"});
}

// JSON written in GBNF reads what nlohmann::json reads.
TEST(Gbnf, JsonGrammarWritesJson) {
  const GrammarPtr json = gbnf(R"(
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-cA-C] [0-9a-fA-F]{3}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,1})? ws
ws ::= | " " | "\n" [ \t]{0,20}
)");
  for (const char* good : {"{}", "{\"a\": [1, 2.5e-3, \"x\\n\", {\"b\":null}]}\n"})
    EXPECT_TRUE(accepts(json, good)) << good;
  for (const char* bad : {"[]", "{\"a\"}", "{\"a\": 01}", "{\"a\": \"\n\"}"})
    EXPECT_FALSE(accepts(json, bad)) << bad;
  const Vocabulary vocabulary;
  std::mt19937_64 random(7);
  int ended = 0;
  for (int i = 0; i < 100; ++i) {
    const Walk walk = random_walk(Matcher(json, vocabulary.trie), vocabulary, random);
    ASSERT_FALSE(walk.stuck) << walk.text;
    if (!walk.ended) continue;
    ++ended;
    EXPECT_TRUE(nlohmann::json::accept(walk.text)) << walk.text;
  }
  EXPECT_GT(ended, 50);
}

TEST(Gbnf, OtherRoots) {
  const char* source = "root ::= \"a\"\nother ::= \"b\"";
  EXPECT_TRUE(accepts(Grammar::from_gbnf(source, "other").value(), "b"));
  EXPECT_FALSE(Grammar::from_gbnf(source, "none").ok());
}

TEST(Gbnf, RefusesByPlace) {
  const auto refuses = [](const std::string& source, std::initializer_list<std::string> mentions) {
    const auto grammar = Grammar::from_gbnf(source);
    ASSERT_FALSE(grammar.ok()) << source;
    EXPECT_EQ(grammar.error().kind, ErrorKind::usage);
    for (const std::string& mention : mentions)
      EXPECT_NE(grammar.error().message.find(mention), std::string::npos)
          << source << ": " << grammar.error().message;
  };
  refuses("", {"\"root\""});
  refuses("root = \"a\"", {"line 1, column 6", "::=", "'='"});
  refuses("root ::= \"a\"\nb ::= c\n", {"line 2, column 7", "\"c\""});
  refuses("root ::= \"a\"\nroot ::= \"b\"", {"line 2, column 1", "second"});
  refuses("root ::= \"a", {"the end"});
  refuses("root ::= \"a\\q\"", {"after a backslash", "'q'"});
  refuses("root ::= [a", {"expected ]"});
  refuses("root ::= [b-a]", {"range"});
  refuses("root ::= []", {"empty"});
  refuses("root ::= (\"a\"", {"expected )"});
  refuses("root ::= \"a\")", {"')'"});
  refuses("root ::= * \"a\"", {"'*'"});
  refuses("root ::= \"a\"{2,1}", {"at least 2"});
  refuses("root ::= \"a\"{x}", {"number"});
  refuses("root ::= \"a\"{1,", {"number", "the end"});
  refuses("root ::= \"a\"{999999999999}", {"larger"});
  refuses("root ::= <[12]>", {"tokens"});
  refuses("root ::= \"\\xZZ\"", {"hexadecimal"});
  refuses("root ::= \"\\uD800\"", {"Unicode character"});
  refuses("root ::= \"é", {"column 12"});  // characters, not bytes
  refuses("root ::= \"\xFF\"", {"UTF-8"});
  refuses("root ::= root \"a\" | \"b\"", {"\"root\"", "left-recursive"});
  refuses("root ::= \"x\" a\na ::= b \"y\" | \"z\"\nb ::= \"c\"? a", {"left-recursive"});
  refuses("root ::= (\"x\"?)* root", {"left-recursive"});
  refuses("root ::= \"a\" root", {"none that ends"});
  refuses("root ::= \"a\" | b\nb ::= \"b\" c\nc ::= d\nd ::= " + std::string(300, '('), {"deep"});
  refuses("root ::= " + std::string(1 << 20, ' '), {"bytes"});
}

TEST(Gbnf, HostileGrammarsEnd) {
  // Rules that call each other in a long row, as far as they may.
  std::string row = "root ::= r0\n";
  for (int i = 0; i < 20'000; ++i) row += fmt::format("r{} ::= r{}\n", i, i + 1);
  EXPECT_FALSE(Grammar::from_gbnf(row + "r20000 ::= \"a\"").ok());
  std::string short_row = "root ::= r0\n";
  for (int i = 0; i < 400; ++i)
    short_row += fmt::format("r{} ::= r{} | \"x\" r{}\n", i, i + 1, i + 1);
  const GrammarPtr grammar = gbnf(short_row + "r400 ::= \"a\"");
  EXPECT_TRUE(accepts(grammar, "xxxa"));
  EXPECT_TRUE(accepts(grammar, std::string(400, 'x') + "a"));
  EXPECT_FALSE(accepts(grammar, std::string(401, 'x') + "a"));

  std::string many = "root ::= \"a\"";
  for (int i = 0; i < 60'000; ++i) many += fmt::format("\nr{} ::= \"b\"", i);
  EXPECT_FALSE(Grammar::from_gbnf(many).ok());
}

}  // namespace
}  // namespace ringkeep::grammar
