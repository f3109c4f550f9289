// The matcher against brute force: a token is allowed exactly if its bytes can be read.
#include "grammar/matcher.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "grammar/automaton.h"
#include "grammar/limits.h"
#include "grammar/vocabulary.h"

namespace ringkeep::grammar {
namespace {

struct Case {
  const char* name;
  GrammarPtr grammar;
};

std::vector<Case> cases() {
  const auto schema = [](const char* text) { return Grammar::from_json_schema(text).value(); };
  const auto regex = [](const char* text) { return Grammar::from_regex(text).value(); };
  Grammar::FreeText free;
  free.triggers.push_back({"<tool_call>", false, Grammar::any_json()});
  free.triggers.push_back({"[TOOL_CALLS]", true, Grammar::any_json()});
  free.controls = {"<think>"};
  return {
      {"any json", Grammar::any_json()},
      {"compact object", Grammar::json_object({Grammar::JsonOptions::Whitespace::compact})},
      {"schema",
       schema(R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 9},
          "n": {"type": "number", "minimum": -1.5, "maximum": 12}, "list": {"type": "array",
          "items": {"enum": ["a", "ab", "abc", 12, null]}, "maxItems": 100}}, "required": ["n"],
          "additionalProperties": {"type": "boolean"}})")},
      {"recursive", schema(R"({"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties":
          {"a": {"type": "string"}, "next": {"$ref": "#/$defs/t"}}, "required": ["a"]}}})")},
      {"no such value",
       schema(R"({"type": "object", "properties": {"a": {"allOf": [{"type": "string"},
          {"type": "integer"}]}, "b": {"type": "null"}}, "additionalProperties": {"$ref": "#/properties/a"}})")},
      {"lengths", schema(R"({"type": "string", "minLength": 3, "maxLength": 90})")},
      {"pattern",
       schema(R"({"type": "string", "pattern": "^[^b]{2,5}(\"|\\n|é)$", "minLength": 4})")},
      {"date", schema(R"({"type": "array", "items": {"type": "string", "format": "date"}})")},
      {"plain then plain", regex("[^\"]{0,3}[a-z]*")},
      {"counts", regex("(ab|a|b){3,70}!")},
      {"nested counts", regex("((a{1,3}b?){2,4}c){0,1000000}")},
      {"optional parts", regex("([ab]*[ c]?[bc]*a?(abc)?)*")},
      {"counted optional parts", regex("((a{0,3}(b|c)?)?(a{1,4}c?){0,2}b?)*!")},
      {"optional members", schema(R"({"type": "array", "minItems": 2, "items": {"properties": {
          "a": {"type": "integer"}, "ab": {"type": "boolean"}, "b": {}, "abc": {"type": "integer"}}}})")},
      {"optional rules",
       Grammar::from_gbnf("root ::= (a? b? \"ab\"? a? c?)*\na ::= \"a\" c?\nb ::= \"b\"? c\n"
                          "c ::= \"c\" | \"1\" root \"2\"")
           .value()},
      {"unicode", regex("(é|€|😀|日本)*")},
      {"ambiguous", Grammar::from_gbnf("root ::= (a | b | a b)* \"a\"\na ::= \"a\" | \"ab\" a?\n"
                                       "b ::= \"b\"+ | [a-c]{2}")
                        .value()},
      {"brackets", Grammar::from_gbnf("root ::= \"a\" root? \"b\" | \"ab\" root").value()},
      {"free text", Grammar::free_text(free).value()},
  };
}

TEST(Matcher, MaskIsWhatAcceptAccepts) {
  const Vocabulary vocabulary;
  std::mt19937_64 random(1);
  for (const Case& one : cases()) {
    const Matcher start(one.grammar, vocabulary.trie);
    for (int walk = 0; walk < 12; ++walk) {
      Matcher matcher(start);
      std::string text;
      for (int step = 0; step < 25; ++step) {
        const std::vector<bool> allowed = mask_of(matcher, vocabulary.size());
        std::vector<int32_t> choices;
        for (size_t i = 0; i < vocabulary.size(); ++i) {
          const auto token = static_cast<int32_t>(i);
          const bool ends = token >= vocabulary.end;
          Matcher next(matcher);
          const bool accepted = ends ? matcher.may_end() : next.accept(token).ok();
          ASSERT_EQ(allowed[i], accepted) << one.name << " after '" << text << "': token '"
                                          << vocabulary.tokens[i].bytes << "'";
          if (accepted && !ends) choices.push_back(token);
        }
        ASSERT_EQ(matcher.complete(), choices.empty()) << one.name << " after '" << text << "'";
        if (choices.empty()) break;
        const int32_t token = choices[random() % choices.size()];
        ASSERT_TRUE(matcher.accept(token).ok());
        text += vocabulary.trie->bytes(token);
      }
    }
  }
}

// However a text is cut into tokens, and in whatever pool it is read.
TEST(Matcher, CutsDoNotMatter) {
  const Vocabulary vocabulary;
  std::mt19937_64 random(2);
  for (const Case& one : cases()) {
    const Matcher start(one.grammar, vocabulary.trie);
    for (int i = 0; i < 20; ++i) {
      const Walk walk = random_walk(start, vocabulary, random, 60);
      ASSERT_FALSE(walk.stuck) << one.name << ": " << walk.text;
      std::string text = walk.text;
      if (i % 2 == 1 && !text.empty())
        text[random() % text.size()] ^= static_cast<char>(1 << random() % 7);
      Matcher whole(start), bytes(start), pieces(start);
      const bool ok = whole.accept_bytes(text).ok();
      bool each = true, some = true;
      for (const char c : text) each = each && bytes.accept_bytes(std::string(1, c)).ok();
      for (size_t at = 0; at < text.size() && some;) {
        const size_t size = 1 + random() % 5;
        some = pieces.accept_bytes(text.substr(at, size)).ok();
        at += size;
      }
      ASSERT_EQ(ok, each) << one.name << ": " << text;
      ASSERT_EQ(ok, some) << one.name << ": " << text;
      if (i % 2 == 0) {
        ASSERT_TRUE(ok) << one.name << ": " << text;
      }
      if (!ok) continue;
      ASSERT_EQ(mask_of(whole, vocabulary.size()), mask_of(bytes, vocabulary.size())) << one.name;
      ASSERT_EQ(whole.may_end(), accepts(one.grammar, text)) << one.name << ": " << text;
    }
  }
}

TEST(Matcher, WalksEndInJson) {
  const Vocabulary vocabulary;
  std::mt19937_64 random(3);
  int ended = 0;
  for (const Case& one : cases()) {
    const std::string name = one.name;
    const bool json = name == "any json" || name == "compact object" || name == "schema" ||
                      name == "recursive" || name == "no such value" || name == "lengths" ||
                      name == "pattern" || name == "date";
    const Matcher start(one.grammar, vocabulary.trie);
    for (int i = 0; i < 60; ++i) {
      const Walk walk = random_walk(start, vocabulary, random);
      ASSERT_FALSE(walk.stuck) << one.name << ": " << walk.text;
      if (!walk.ended) continue;
      EXPECT_TRUE(accepts(one.grammar, walk.text)) << one.name << ": " << walk.text;
      if (!json) continue;
      ++ended;
      EXPECT_TRUE(nlohmann::json::accept(walk.text)) << one.name << ": " << walk.text;
      if (name != "schema") continue;
      const auto parsed = nlohmann::json::parse(walk.text);
      EXPECT_LE(parsed["n"].get<double>(), 12);
      EXPECT_GE(parsed["n"].get<double>(), -1.5);
    }
  }
  EXPECT_GT(ended, 200);
}

TEST(Matcher, RefusesTokensAndStays) {
  const Vocabulary vocabulary;
  Matcher matcher(Grammar::literal("abc"), vocabulary.trie);
  const auto find = [&](std::string_view bytes) {
    for (size_t i = vocabulary.size(); i-- > 0;)
      if (vocabulary.tokens[i].bytes == bytes) return static_cast<int32_t>(i);
    return -1;
  };
  EXPECT_FALSE(matcher.accept(find("abcabcabc")).ok());
  EXPECT_FALSE(matcher.accept(-1).ok());
  EXPECT_FALSE(matcher.accept(1 << 20).ok());
  EXPECT_FALSE(matcher.accept(vocabulary.end).ok());
  EXPECT_EQ(matcher.accept(find("true")).error().kind, ErrorKind::runtime);
  EXPECT_TRUE(matcher.accept(find("ab")).ok());
  EXPECT_FALSE(matcher.complete());
  EXPECT_TRUE(matcher.accept('c').ok());
  EXPECT_TRUE(matcher.complete());
  const auto allowed = mask_of(matcher, vocabulary.size());
  for (size_t i = 0; i < vocabulary.size(); ++i)
    EXPECT_EQ(allowed[i], static_cast<int32_t>(i) >= vocabulary.end);
}

// A model may have more logits than its tokenizer has tokens.
TEST(Matcher, ClearsWhatIsBeyondTheVocabulary) {
  const Vocabulary vocabulary;
  for (const char* pattern : {"a", "(.|\n)*"}) {
    Matcher matcher(Grammar::from_regex(pattern).value(), vocabulary.trie);
    std::vector<uint64_t> words((vocabulary.size() + 63) / 64 + 3, ~uint64_t{0});
    EXPECT_TRUE(matcher.mask(words).ok());
    for (size_t i = vocabulary.size(); i < words.size() * 64; ++i)
      ASSERT_FALSE(words[i / 64] >> (i % 64) & 1) << i;
    // And it only clears.
    std::fill(words.begin(), words.end(), 0);
    EXPECT_TRUE(matcher.mask(words).ok());
    for (const uint64_t word : words) ASSERT_EQ(word, 0u);
  }
}

TEST(Matcher, ControlTokensOnlyWhereTheGrammarNamesThem) {
  const Vocabulary vocabulary;
  const int32_t tool = vocabulary.end - 3, think = vocabulary.end - 2;
  Matcher any(Grammar::from_regex("(.|\\s)*").value(), vocabulary.trie);
  EXPECT_FALSE(mask_of(any, vocabulary.size())[static_cast<size_t>(tool)]);
  EXPECT_FALSE(mask_of(any, vocabulary.size())[0xFF]);
  Matcher named(Grammar::control("[TOOL_CALLS]"), vocabulary.trie);
  const auto allowed = mask_of(named, vocabulary.size());
  EXPECT_TRUE(allowed[static_cast<size_t>(tool)]);
  EXPECT_EQ(std::count(allowed.begin(), allowed.end(), true), 1);
  EXPECT_FALSE(named.accept(think).ok());
  EXPECT_TRUE(named.accept(tool).ok());
  EXPECT_TRUE(named.complete());
}

// A long text and a large bound: the automaton is built anew from its state now and then.
TEST(Matcher, LongTextsKeepToTheirMemory) {
  const Vocabulary vocabulary;
  const auto grammar =
      Grammar::from_json_schema(R"({"type": "string", "minLength": 250000, "maxLength": 300000})")
          .value();
  Matcher matcher(grammar, vocabulary.trie);
  ASSERT_TRUE(matcher.accept('"').ok());
  for (int i = 0; i < 299'999; ++i) ASSERT_TRUE(matcher.accept('a').ok()) << i;
  EXPECT_TRUE(mask_of(matcher, vocabulary.size())['a']);
  EXPECT_TRUE(mask_of(matcher, vocabulary.size())['"']);
  ASSERT_TRUE(matcher.accept('b').ok());
  EXPECT_FALSE(mask_of(matcher, vocabulary.size())['a']);
  EXPECT_TRUE(matcher.accept('"').ok());
  EXPECT_TRUE(matcher.complete());

  Automaton automaton(grammar);
  StateId state = automaton.start();
  size_t largest = 0, kept = 0;
  for (int i = 0; i < 280'000; ++i) {
    state = automaton.step(state, i == 0 ? '"' : 'x');
    if (automaton.large()) {
      state = automaton.keep_only(state);
      ++kept;
    }
    largest = std::max(largest, automaton.pool().own_size());
  }
  EXPECT_GT(kept, 0u);
  EXPECT_LE(largest, kMostReplyExpressions + 100);
  EXPECT_TRUE(automaton.accepting(automaton.step(state, '"')));
}

// Nesting stops at a bound; what is open can still be closed.
TEST(Matcher, DeepNestingCanBeClosed) {
  const Vocabulary vocabulary;
  Matcher matcher(Grammar::any_json(), vocabulary.trie);
  int depth = 0;
  while (matcher.accept('[').ok()) ASSERT_LT(++depth, 5'000);
  EXPECT_GT(depth, 100);
  EXPECT_FALSE(mask_of(matcher, vocabulary.size())['[']);
  for (int i = 0; i < depth; ++i) ASSERT_TRUE(matcher.accept(']').ok()) << i;
  EXPECT_TRUE(matcher.complete());
}

// Far more readings of a text than can be kept: fewer texts, but never none.
TEST(Matcher, AmbiguityIsBounded) {
  const Vocabulary vocabulary;
  std::mt19937_64 random(4);
  std::string rules = "root ::= r0\n";
  for (int i = 0; i < 40; ++i)
    rules +=
        fmt::format("r{} ::= r{} \"a\" | r{} \"b\" | r{} \"c\" root?\n", i, i + 1, i + 1, i + 1);
  rules += "r40 ::= [a-c]+ root? | \"x\"\n";
  for (const std::string& source :
       {rules, std::string("root ::= \"a\" root \"b\" root? | \"a\" root? \"c\" | [ab]"),
        std::string("root ::= ([ab]{0,100}){0,100} ([ab]{3,1000}){2,50} \"a\" [ab]{20}")}) {
    const auto grammar = Grammar::from_gbnf(source);
    ASSERT_TRUE(grammar.ok()) << grammar.error().message;
    for (int i = 0; i < 3; ++i) {
      const Walk walk = random_walk(Matcher(*grammar, vocabulary.trie), vocabulary, random, 40);
      EXPECT_FALSE(walk.stuck) << walk.text;
    }
  }
}

}  // namespace
}  // namespace ringkeep::grammar
