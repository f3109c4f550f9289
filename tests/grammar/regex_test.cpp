// Regular expressions against Python's re (goldens) and PCRE2 (random expressions).
#define PCRE2_CODE_UNIT_WIDTH 8
#include <gtest/gtest.h>
#include <pcre2.h>

#include <array>
#include <memory>
#include <random>

#include "grammar/golden.h"
#include "grammar/matcher.h"

namespace ringkeep::grammar {
namespace {

TEST(Regex, MatchesAsPythonDoes) {
  const auto cases = golden("regex.json");
  ASSERT_GT(cases.size(), 50u);
  for (const auto& one : cases) {
    const std::string pattern = one["pattern"];
    const auto grammar = Grammar::from_regex(pattern);
    ASSERT_TRUE(grammar.ok()) << pattern << ": " << grammar.error().message;
    for (const std::string text : one["match"])
      EXPECT_TRUE(accepts(*grammar, text)) << pattern << " on '" << text << "'";
    for (const std::string text : one["no_match"])
      EXPECT_FALSE(accepts(*grammar, text)) << pattern << " on '" << text << "'";
  }
}

class Oracle {
 public:
  explicit Oracle(const std::string& pattern) {
    int error = 0;
    size_t offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY,
                              &error, &offset, nullptr));
    data_.reset(code_ ? pcre2_match_data_create_from_pattern(code_.get(), nullptr) : nullptr);
  }
  bool compiled() const { return code_ != nullptr; }
  bool matches(const std::string& text) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int found = pcre2_match(code_.get(), subject, text.size(), 0, 0, data_.get(), nullptr);
    if (found == PCRE2_ERROR_MATCHLIMIT) {  // its matcher that does not backtrack: the longest
      std::array<int, 4096> workspace;
      found = pcre2_dfa_match(code_.get(), subject, text.size(), 0, 0, data_.get(), nullptr,
                              workspace.data(), workspace.size());
      if (found >= 0 && pcre2_get_ovector_pointer(data_.get())[1] != text.size()) return false;
    }
    EXPECT_TRUE(found >= 0 || found == PCRE2_ERROR_NOMATCH) << found;
    return found >= 0;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> data_;
};

std::string random_pattern(std::mt19937_64& random, int depth) {
  const auto below = [&](size_t n) { return random() % n; };
  std::string out;
  const size_t items = below(4);
  for (size_t i = 0; i < items; ++i) {
    static const char* kAtoms[] = {"a",     "b",     "c",   "é",   ".",   "[ab]",
                                   "[^a]",  "[a-c]", "\\w", "\\d", "\\S", "[^\\W\\d]",
                                   "\\x61", "[é-ü]", "1",   "\\."};
    if (depth > 0 && below(3) == 0) {
      out += below(2) != 0 ? "(" : "(?:";
      out += random_pattern(random, depth - 1) + ")";
    } else {
      out += kAtoms[below(std::size(kAtoms))];
    }
    static const char* kQuantifiers[] = {"*",     "+",    "?",  "{2}", "{1,3}",
                                         "{0,2}", "{2,}", "*?", "+?"};
    if (below(3) == 0) out += kQuantifiers[below(std::size(kQuantifiers))];
  }
  if (below(4) == 0) out += "|" + random_pattern(random, depth);
  return out;
}

TEST(Regex, MatchesAsPcre2Does) {
  std::mt19937_64 random(5);
  int matched = 0, checked = 0;
  for (int i = 0; i < 1500; ++i) {
    const std::string pattern = random_pattern(random, 3);
    const Oracle oracle(pattern);
    ASSERT_TRUE(oracle.compiled()) << pattern;
    const auto grammar = Grammar::from_regex(pattern);
    ASSERT_TRUE(grammar.ok()) << pattern << ": " << grammar.error().message;
    for (int j = 0; j < 20; ++j) {
      std::string text;
      static const char* kLetters[] = {"a", "b", "c", "é", "1", ".", "z", "ü", "a", "b"};
      for (size_t n = random() % 7; n > 0; --n) text += kLetters[random() % std::size(kLetters)];
      const bool expected = oracle.matches(text);
      ASSERT_EQ(accepts(*grammar, text), expected) << pattern << " on '" << text << "'";
      matched += expected;
      ++checked;
    }
  }
  EXPECT_GT(matched, checked / 20);
}

// Ways through optional parts that meet again, and counts among them.
TEST(Regex, OptionalPartsInCircles) {
  std::mt19937_64 random(6);
  const auto one_of = [&](auto... choices) {
    const char* all[] = {choices...};
    return std::string(all[random() % sizeof...(choices)]);
  };
  int matched = 0, checked = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string pattern = "(";
    for (size_t n = 1 + random() % 6; n > 0; --n) {
      pattern += one_of("a", "b", "[ab]", "(ab)", "(a?b)", "(ab|a)", "(a{0,2}c)", "(c|)") +
                 one_of("?", "?", "*", "{0,2}", "{1,3}", "");
    }
    pattern += ")" + one_of("*", "+", "{1,3}", "") + one_of("", "c", "b?");
    const Oracle oracle(pattern);
    ASSERT_TRUE(oracle.compiled()) << pattern;
    const auto grammar = Grammar::from_regex(pattern);
    ASSERT_TRUE(grammar.ok()) << pattern << ": " << grammar.error().message;
    for (int j = 0; j < 20; ++j) {
      std::string text;
      for (size_t n = random() % 9; n > 0; --n) text += one_of("a", "a", "b", "b", "c");
      const bool expected = oracle.matches(text);
      ASSERT_EQ(accepts(*grammar, text), expected) << pattern << " on '" << text << "'";
      matched += expected;
      ++checked;
    }
  }
  EXPECT_GT(matched, checked / 20);
}

TEST(Regex, WritesOnlyUtf8) {
  const auto any = Grammar::from_regex("(.|\\s)*").value();
  EXPECT_TRUE(accepts(any, "é€😀\xF4\x8F\xBF\xBF\n\r\xE2\x80\xA8"));
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3", "\xE2\x82"})
    EXPECT_FALSE(accepts(any, bad)) << std::string(bad).size();
}

TEST(Regex, LargeCountsCostNothing) {
  const auto grammar = Grammar::from_regex("(a{0,1000000}b){0,1000000}c{1000000,}").value();
  EXPECT_TRUE(accepts(grammar, "aaabab" + std::string(1'000'000, 'c')));
  EXPECT_FALSE(accepts(grammar, "aaabab" + std::string(999'999, 'c')));
}

TEST(Regex, AnchorsStandAtTheEnds) {
  for (const char* pattern : {"^ab$", "^ab", "ab$", "^a|b$|^c$", "^(a|b)$", "^^a$$"}) {
    EXPECT_TRUE(Grammar::from_regex(pattern).ok()) << pattern;
  }
  EXPECT_TRUE(accepts(Grammar::from_regex("^a|b$").value(), "b"));
  EXPECT_FALSE(accepts(Grammar::from_regex("^ab$").value(), "abc"));
}

TEST(Regex, RefusesByName) {
  const auto refuses = [](const std::string& pattern, std::initializer_list<std::string> mentions) {
    const auto grammar = Grammar::from_regex(pattern);
    ASSERT_FALSE(grammar.ok()) << pattern;
    EXPECT_EQ(grammar.error().kind, ErrorKind::usage);
    for (const std::string& mention : mentions)
      EXPECT_NE(grammar.error().message.find(mention), std::string::npos)
          << pattern << ": " << grammar.error().message;
  };
  refuses("a(?=b)", {"look-ahead", "column 2"});
  refuses("a(?!b)", {"look-ahead"});
  refuses("(?<=a)b", {"look-behind"});
  refuses("(?<!a)b", {"look-behind"});
  refuses("(a)\\1", {"back-reference", "column 4"});
  refuses("(?<n>a)\\k<n>", {"back-reference"});
  refuses("(?>a)", {"atomic"});
  refuses("(?i)a", {"flag"});
  refuses("a*+", {"possessive"});
  refuses("\\bfoo", {"word boundary"});
  refuses("\\p{L}", {"Unicode property"});
  refuses("a^b", {"anchors"});
  refuses("(^a)", {"anchors"});
  refuses("a$b", {"after $"});
  refuses("(a", {"expected )", "the end"});
  refuses("a)", {"expected no ) without ("});
  refuses("[a", {"expected ]"});
  refuses("[]a]", {"bracket"});
  refuses("[b-a]", {"range"});
  refuses("[\\w-z]", {"range"});
  refuses("[[:alpha:]]", {"POSIX"});
  refuses("*a", {"repeat"});
  refuses("a**", {"one quantifier"});
  refuses("a{3,2}", {"{low,high}"});
  refuses("a{,3}", {"number"});
  refuses("a{99999999999}", {"larger"});
  refuses("a\\", {"backslash"});
  refuses("\\q", {"\\q"});
  refuses("\\u00g0", {"hexadecimal"});
  refuses("\\uD800", {"Unicode character"});
  refuses("\xFF", {"UTF-8"});
  refuses(std::string(1000, '(') + "a" + std::string(1000, ')'), {"deep"});
  refuses(std::string((1 << 16) + 1, 'a'), {"bytes"});
  refuses("[^\\d\\D]", {"empty"});
}

}  // namespace
}  // namespace ringkeep::grammar
