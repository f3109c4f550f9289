// JSON text as expressions. What a model writes is bounded where a text could go on for ever
// without a reason: white space, digits of numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "grammar/code_points.h"
#include "grammar/expr.h"
#include "grammar/grammar.h"

namespace ringkeep::grammar {

class JsonBlocks {
 public:
  JsonBlocks(ExprPool& pool, const Grammar::JsonOptions& options);

  ExprPool& pool() { return pool_; }
  ExprId space() const { return space_; }
  // `[`, items, `]`; `items` has its own commas and is not empty. Without items where that may be.
  ExprId bracketed(char open, ExprId items, char close, bool may_be_none);
  ExprId comma() { return pool_.concat(pool_.literal(","), space_); }
  ExprId colon() { return pool_.concat(pool_.literal(":"), space_); }

  ExprId character();  // of a string, in any spelling; one code point
  ExprId string();
  ExprId integer();
  ExprId number();
  ExprId boolean();
  ExprId null() { return pool_.literal("null"); }
  ExprId value();  // any
  ExprId object();
  ExprId array();

 private:
  ExprId value_rule();
  ExprPool& pool_;
  ExprId space_;
  std::optional<uint32_t> string_, number_, value_;  // rules
};

// The one spelling of a character that patterns, formats, names and constants use: itself, or the
// shortest escape where JSON needs one.
ExprId spelled(ExprPool& pool, const CodePoints& points);
// A whole string so spelled, with its quotes. `text` is UTF-8.
std::string spelled(std::string_view text);

}  // namespace ringkeep::grammar
