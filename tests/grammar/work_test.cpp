// What masks cost: grammars with many parts that may be left out, and ones that are too hard.
#include <gtest/gtest.h>

#include "grammar/automaton.h"
#include "grammar/limits.h"
#include "grammar/vocabulary.h"

namespace ringkeep::grammar {
namespace {

std::string repeated(size_t count, const auto& part) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += part(i);
  return out;
}
char letter(size_t i) { return static_cast<char>('a' + i % 26); }

GrammarPtr words(size_t count) {
  return Grammar::from_regex(
             "(" +
             repeated(count, [](size_t i) { return fmt::format("[a-z]*[ {}]?", letter(i)); }) +
             ")*")
      .value();
}
GrammarPtr pairs(size_t count) {
  return Grammar::from_gbnf(
             "root ::= (" +
             repeated(count,
                      [](size_t i) { return fmt::format("\"{}{}\"? ", letter(i), i % 10); }) +
             ")*")
      .value();
}
GrammarPtr objects(size_t count) {
  const std::string members = repeated(count, [](size_t i) {
    return fmt::format(R"({}"p{}": {{"type": "integer"}})", i == 0 ? "" : ", ", i);
  });
  return Grammar::from_json_schema(fmt::format(
                                       R"({{"type": "array", "minItems": 30, "items": {{
                                         "type": "object", "properties": {{{}}}}}}})",
                                       members))
      .value();
}

struct Wide {
  const char* name;
  GrammarPtr (*make)(size_t count);
  size_t count;
  const char* text;
};
constexpr Wide kWide[] = {{"words", words, 600, "the cat "},
                          {"pairs", pairs, 10'000, "a0b1a0z5"},
                          {"objects", objects, 4'999, R"([{"p1": 1, "p2": -20}, {"p0": 3, )"}};

// Nothing is made anew for each of the parts that were left out.
TEST(Work, AStepCostsItsAlternatives) {
  for (const Wide& one : kWide) {
    constexpr size_t kCount = 500;
    Automaton automaton(one.make(kCount));
    StateId state = automaton.start();
    for (const char* at = one.text; *at != '\0'; ++at) {
      const size_t parts = automaton.pool().own_size();
      const uint64_t work = automaton.work();
      state = automaton.step(state, static_cast<uint8_t>(*at));
      ASSERT_NE(state, kDead) << one.name << " before " << at;
      EXPECT_LE(automaton.pool().own_size() - parts, 10 * kCount) << one.name << " before " << at;
      EXPECT_LE(automaton.work() - work, 40 * kCount) << one.name << " before " << at;
      EXPECT_GE(automaton.work(), automaton.pool().own_size()) << one.name;  // each is charged
    }
  }
}

TEST(Work, WideGrammarsHaveTheirMasks) {
  const Vocabulary vocabulary;
  std::mt19937_64 random(6);
  for (const Wide& one : kWide) {
    Matcher matcher(one.make(one.count), vocabulary.trie);
    const std::string_view text = one.text;
    for (const char byte : text) {
      const uint64_t before = matcher.work();
      EXPECT_TRUE(mask_of(matcher, vocabulary.size())[static_cast<uint8_t>(byte)]) << one.name;
      EXPECT_LE(matcher.work() - before, kMostWalkWork) << one.name;
      ASSERT_TRUE(matcher.accept(static_cast<uint8_t>(byte)).ok()) << one.name;
    }
    EXPECT_FALSE(random_walk(matcher, vocabulary, random, 10).stuck) << one.name;
  }
}

// Thousands of readings of every byte, none like another: an error, and not much later.
TEST(Work, TooHardAMaskIsAnError) {
  const Vocabulary vocabulary;
  const auto point = [](size_t i) { return fmt::format("\\x{:02x}", 0x20 + i % 90); };
  const std::string source =
      "root ::= " +
      repeated(8'000,
               [&](size_t i) {
                 return fmt::format("[^{}{}] [^{}] root | ", point(i / 90), point(i), point(i / 7));
               }) +
      "\"x\"";
  const auto grammar = Grammar::from_gbnf(source);
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  Matcher matcher(*grammar, vocabulary.trie);
  std::vector<uint64_t> allowed((vocabulary.size() + 63) / 64, ~uint64_t{0});
  const Status masked = matcher.mask(allowed);
  ASSERT_FALSE(masked.ok()) << matcher.work();
  EXPECT_EQ(masked.error().kind, ErrorKind::usage);
  EXPECT_LE(matcher.work(), kMostMaskWork + 10 * kMostStepWork);
}

}  // namespace
}  // namespace ringkeep::grammar
