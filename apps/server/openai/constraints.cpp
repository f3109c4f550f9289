#include "server/openai/constraints.h"

#include <algorithm>

namespace ringkeep::openai {
namespace {

constexpr size_t kKept = 16;
constexpr size_t kMostRequired = 10'000;  // names, of all objects of a schema

size_t required_names(const Json& value) {
  size_t count = 0;
  for (const auto& [key, member] : value.items()) {
    if (value.is_object() && key == "required" && member.is_array()) count += member.size();
    if (member.is_structured()) count += required_names(member);
  }
  return count;
}

}  // namespace

Status check_schema(const Json& schema) {
  if (const size_t names = required_names(schema); names > kMostRequired)
    return make_error(ErrorKind::usage,
                      "json schema: expected at most {} required properties, found {}",
                      kMostRequired, names);
  return {};
}

Result<grammar::GrammarPtr> rule_grammar(const OutputRule& rule) {
  using grammar::Grammar;
  switch (rule.kind) {
    case OutputRule::Kind::json_object: return Grammar::json_object();
    case OutputRule::Kind::json_schema:
      RK_TRY(check_schema(rule.schema));
      return Grammar::from_json_schema(rule.schema, Grammar::JsonOptions{});
    case OutputRule::Kind::regex: return Grammar::from_regex(rule.text);
    case OutputRule::Kind::grammar: return Grammar::from_gbnf(rule.text);
    case OutputRule::Kind::choice: return Grammar::one_of(rule.choices);
    case OutputRule::Kind::none: break;
  }
  RK_CHECK(false, "no rule has no grammar");
  return grammar::GrammarPtr();
}

MatcherPointer Constraints::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find(latest_, key, &std::pair<std::string, MatcherPointer>::first);
  if (found == latest_.end()) return nullptr;
  latest_.splice(latest_.begin(), latest_, found);
  return found->second;
}

std::shared_ptr<const grammar::TokenTrie> Constraints::trie() {
  const std::lock_guard lock(mutex_);
  if (trie_ == nullptr) trie_ = grammar::TokenTrie::build(tokenizer_);
  return trie_;
}

Result<MatcherPointer> Constraints::keep(const std::string& key,
                                         const grammar::GrammarPtr& grammar) {
  const auto trie = this->trie();
  auto matcher = std::make_shared<const grammar::Matcher>(grammar, trie);
  // Here rather than by the engine; all replies share it.
  std::vector<uint64_t> allowed(trie->words(), ~uint64_t{0});
  RK_TRY(grammar::Matcher(*matcher).mask(allowed));
  const std::lock_guard lock(mutex_);
  latest_.emplace_front(key, matcher);
  if (latest_.size() > kKept) latest_.pop_back();
  return matcher;
}

}  // namespace ringkeep::openai
