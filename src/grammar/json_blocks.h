// JSON text, and that of its relatives, as expressions. What a model writes is bounded where a text
// could go on for ever without a reason: white space, digits of numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "grammar/code_points.h"
#include "grammar/expr.h"
#include "grammar/grammar.h"

namespace ringkeep::grammar {

// How strings stand in a text: by itself, JSON's way.
struct StringNotation {
  std::string mark = "\"";   // on both sides; may be empty
  bool control = false;      // the mark is the control token of that name
  bool escaped = true;       // with JSON's escapes; else characters stand as they are
  bool bare_names = false;   // members' names stand without marks where they can
  std::string without = "";  // must not stand within a string; empty: nothing
};

class JsonBlocks {
 public:
  JsonBlocks(ExprPool& pool, const Grammar::JsonOptions& options, StringNotation strings = {});

  ExprPool& pool() { return pool_; }
  ExprId space() const { return space_; }
  // `[`, items, `]`; `items` has its own commas and is not empty. Without items where that may be.
  ExprId bracketed(char open, ExprId items, char close, bool may_be_none);
  ExprId comma() { return pool_.concat(pool_.literal(","), space_); }
  ExprId colon() { return pool_.concat(pool_.literal(":"), space_); }

  const StringNotation& strings() const { return strings_; }
  ExprId mark();
  ExprId quoted(ExprId content) { return pool_.sequence({mark(), content, mark()}); }
  ExprId character();  // of a string, in any spelling; one code point
  ExprId string();     // any
  ExprId name();       // of a member, any
  // A string of that (UTF-8) text; a member's name. Errors (usage): it cannot be written so.
  Result<std::string> written(std::string_view text) const;
  Result<std::string> written_name(std::string_view text) const;
  ExprId integer();
  ExprId number();
  ExprId boolean();
  ExprId null() { return pool_.literal("null"); }
  ExprId value();  // any
  ExprId object();
  ExprId array();

 private:
  ExprPool& pool_;
  const StringNotation strings_;
  ExprId space_;
  std::optional<uint32_t> string_, number_, value_;  // rules
};

// Bare names that a schema leaves open.
inline constexpr char kBareName[] = "[A-Za-z_][A-Za-z0-9_.-]{0,63}";

// The one spelling of a character that patterns, formats, names and constants use: itself, or the
// shortest escape where JSON needs one.
ExprId spelled(ExprPool& pool, const CodePoints& points);
// A whole string so spelled, with its quotes. `text` is UTF-8.
std::string spelled(std::string_view text);

}  // namespace ringkeep::grammar
