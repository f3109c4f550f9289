// Holds one reply to a grammar, token by token.
#pragma once

#include <memory>
#include <string_view>

#include "grammar/grammar.h"
#include "grammar/token_trie.h"
#include "text/token_constraint.h"

namespace ringkeep::grammar {

// A copy goes on from the same place on its own, and shares what was found out about masks: build
// one start a grammar and copy it for every reply. One object is for one thread at a time.
class Matcher final : public text::TokenConstraint {
 public:
  Matcher(GrammarPtr grammar, std::shared_ptr<const TokenTrie> trie);
  Matcher(const Matcher& other);
  Matcher& operator=(const Matcher& other);
  ~Matcher() override;

  Status mask(std::span<uint64_t> allowed) override;
  Status accept(int32_t token) override;
  bool complete() const override;

  // The text so far may end here.
  bool may_end() const;
  // Goes on by bytes instead of a token. Errors (runtime): the grammar has no such text; nothing
  // is read then.
  Status accept_bytes(std::string_view bytes);
  // What this object's masks and texts have cost so far (ExprPool::work).
  uint64_t work() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether the whole text is in the grammar.
bool accepts(const GrammarPtr& grammar, std::string_view text);

}  // namespace ringkeep::grammar
