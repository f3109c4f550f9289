// A grammar from the inside, and how front ends finish one.
#pragma once

#include <array>

#include "grammar/expr.h"
#include "grammar/grammar.h"

namespace ringkeep::grammar {

struct Grammar::Data {
  ExprPool pool;
  ExprId root = kNothing;
  // Bytes that no expression tells apart share a class.
  std::array<uint8_t, 256> byte_class{};
  std::vector<uint8_t> class_bytes;  // [classes] one byte of each
};

// Checks the rules and counts (left recursion, no finite text, too large) and freezes the pool.
Result<GrammarPtr> finish(ExprPool pool, ExprId root);

// The root of another grammar as an expression of `pool`, its rules added.
ExprId import(ExprPool& pool, const Grammar& grammar);

// Errors (usage) once a front end has made too much of its source.
Status check_size(const ExprPool& pool);

}  // namespace ringkeep::grammar
