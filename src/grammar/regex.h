// Regular expressions as expressions.
#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"
#include "grammar/code_points.h"

namespace ringkeep::grammar {

struct RegexOptions {
  std::string_view name = "regex";  // in messages
  // A match anywhere in the text, unless ^ or $ say otherwise; else the whole text.
  bool search = false;
  // How one character of a set is written.
  std::function<ExprId(ExprPool&, const CodePoints&)> write =
      [](ExprPool& pool, const CodePoints& points) { return utf8(pool, points); };
};

Result<ExprId> regex(ExprPool& pool, std::string_view pattern, const RegexOptions& options);

}  // namespace ringkeep::grammar
