// Structured output: rules of requests as grammars, ready to hold replies to.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/sha256.h"
#include "grammar/matcher.h"
#include "server/openai/request.h"
#include "text/tokenizer.h"

namespace ringkeep::openai {

using MatcherPointer = std::shared_ptr<const grammar::Matcher>;  // at the beginning of a text

// Errors (usage): the schema names too many properties as required (they are compared each with
// each).
Status check_schema(const Json& schema);
// What the rule says. Errors (usage): of the schema, expression or grammar; it must not be `none`.
Result<grammar::GrammarPtr> rule_grammar(const OutputRule& rule);

// Grammars over the vocabulary of one model, the latest of them kept: what one reply finds out
// about the tokens that a grammar allows serves the next one too.
class Constraints {
 public:
  explicit Constraints(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // `name` stands for the grammar, `make` is called where it is not known.
  template <typename Make>
  Result<MatcherPointer> matcher(const std::string& name, const Make& make) {
    const std::string key = sha256_hex(name);  // a schema is up to as large as a body
    if (auto known = find(key)) return known;
    return keep(key, RK_TRY(make()));
  }

 private:
  MatcherPointer find(const std::string& key);
  // Errors (usage): already its first mask takes too much work.
  Result<MatcherPointer> keep(const std::string& key, const grammar::GrammarPtr& grammar);
  std::shared_ptr<const grammar::TokenTrie> trie();

  const text::Tokenizer& tokenizer_;
  std::mutex mutex_;
  std::shared_ptr<const grammar::TokenTrie> trie_;  // made for the first one
  std::list<std::pair<std::string, MatcherPointer>> latest_;
};

}  // namespace ringkeep::openai
