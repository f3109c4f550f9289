// What regular expressions have in common, and what they leave.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/expr.h"
#include "grammar/grammar.h"

namespace ringkeep::grammar {

// The parts must not call themselves. kNothing where they have nothing in common. Takes what it
// looks at from `budget`. Errors (usage): the automaton of all together is too large, or the budget
// is spent; `what` names them.
Result<ExprId> intersect(ExprPool& pool, const std::vector<GrammarPtr>& parts,
                         std::string_view what, uint64_t& budget);

// All bytes that are not among the texts of `part`, which must not call itself. Errors (usage): too
// many states.
Result<GrammarPtr> complement(const GrammarPtr& part);
// All bytes in which `text`, which is not empty and of at most kMostMark bytes, is nowhere.
GrammarPtr without(std::string_view text);

}  // namespace ringkeep::grammar
