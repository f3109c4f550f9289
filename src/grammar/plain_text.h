// Plain characters: those that most tokens are made of and that mean nothing to most grammars, so
// that all of a vocabulary's plain tokens can be allowed at once. They are the printable ones but
// for `"`, `\`, U+007F and the line separators U+2028 and U+2029.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "grammar/automaton.h"

namespace ringkeep::grammar {

// The characters of a text of nothing but plain ones; 0 for others.
size_t plain_characters(std::string_view bytes);

// Whether and how far states read plain text, by what is repeated there.
class PlainText {
 public:
  // Where every text of up to so many plain characters goes on from the state, and no longer one;
  // none where that is not so (or not seen). kUnbounded: every length.
  std::optional<uint32_t> reach(Automaton& automaton, StateId state);
  void forget() { singles_.clear(); }  // with the automaton's expressions

 private:
  std::unordered_map<ExprId, bool> singles_;  // expressions that read one plain character
};

}  // namespace ringkeep::grammar
