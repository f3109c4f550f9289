// A small vocabulary with what makes masks hard: single bytes, pieces of JSON, tokens across
// several parts of a text, halves of characters, equal bytes twice, control and end tokens.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "grammar/matcher.h"

namespace ringkeep::grammar {

struct Vocabulary {
  std::vector<TokenTrie::Token> tokens;
  std::shared_ptr<const TokenTrie> trie;
  int32_t end = 0;

  explicit Vocabulary(std::vector<std::string> more = {}) {
    using Kind = TokenTrie::Token::Kind;
    for (int byte = 0; byte < 256; ++byte)
      tokens.push_back({std::string(1, static_cast<char>(byte))});
    for (const char* text :
         {"ab",
          "abc",
          "hello",
          " world",
          "\"",
          "\":",
          "\": ",
          "\",",
          "\", \"",
          "\"}",
          "\"}]",
          "{\"",
          "[{\"",
          "},{\"",
          "]}",
          "}}",
          "\":\"",
          "\": \"",
          "\\n",
          "\\\"",
          "\\u00",
          "e9",
          "true",
          "false",
          "null",
          "alse",
          "12",
          "123",
          "0.5",
          "-1",
          "e+",
          "00",
          "\n  ",
          "\n\n",
          "  ",
          ", ",
          "name",
          "a\"",
          "\xC3\xA9",
          "\xC3",
          "\xE2\x82",
          "\x82\xAC",
          "\xF0\x9F\x98",
          "\x98\x80x",
          "é\"",
          "日本",
          "a",
          "b",
          "<tool",
          "_call>",
          "<tool_call>",
          "</tool_call>",
          "2024-",
          "-02-",
          "29",
          "T1",
          ".,;",
          "abcabcabc",
          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})
      tokens.push_back({text});
    for (std::string& text : more) tokens.push_back({std::move(text)});
    tokens.push_back({"[TOOL_CALLS]", Kind::control});
    tokens.push_back({"<think>", Kind::control});
    tokens.push_back({""});
    end = static_cast<int32_t>(tokens.size());
    tokens.push_back({"", Kind::end});
    tokens.push_back({"", Kind::end});
    trie = TokenTrie::build(tokens);
  }
  size_t size() const { return tokens.size(); }
};

inline std::vector<bool> mask_of(Matcher& matcher, size_t vocabulary) {
  std::vector<uint64_t> words((vocabulary + 63) / 64, ~uint64_t{0});
  EXPECT_TRUE(matcher.mask(words).ok());
  std::vector<bool> out(vocabulary);
  for (size_t i = 0; i < vocabulary; ++i) out[i] = (words[i / 64] >> (i % 64) & 1) != 0;
  return out;
}

struct Walk {
  std::string text;
  bool ended = false;  // by an end token or because nothing else could follow
  bool stuck = false;  // no token was allowed: never right
  std::vector<int32_t> tokens;
};

// Chooses allowed tokens at random, ends where it may with some chance.
inline Walk random_walk(Matcher matcher, const Vocabulary& vocabulary, std::mt19937_64& random,
                        size_t most_tokens = 200) {
  Walk walk;
  while (walk.tokens.size() < most_tokens) {
    if (matcher.complete()) {
      walk.ended = true;
      return walk;
    }
    const std::vector<bool> allowed = mask_of(matcher, vocabulary.size());
    std::vector<int32_t> choices;
    for (size_t i = 0; i < allowed.size(); ++i)
      if (allowed[i]) choices.push_back(static_cast<int32_t>(i));
    if (choices.empty()) {
      walk.stuck = true;
      return walk;
    }
    // Short of the end: prefer to close what is open.
    if (allowed[static_cast<size_t>(vocabulary.end)] && random() % 3 == 0) {
      walk.ended = true;
      return walk;
    }
    int32_t token = choices[random() % choices.size()];
    if (walk.tokens.size() > most_tokens / 3) {
      for (const int32_t other : choices) {
        const std::string& bytes = vocabulary.tokens[static_cast<size_t>(other)].bytes;
        if (bytes == "\"" || bytes == "}" || bytes == "]") token = other;
      }
    }
    if (token >= vocabulary.end) {
      walk.ended = true;
      return walk;
    }
    const Status accepted = matcher.accept(token);
    EXPECT_TRUE(accepted.ok()) << accepted.error().message << " after " << walk.text;
    walk.text += vocabulary.trie->bytes(token);
    walk.tokens.push_back(token);
  }
  return walk;
}

}  // namespace ringkeep::grammar
