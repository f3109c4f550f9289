// JSON schemas as expressions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "grammar/json_blocks.h"
#include "grammar/json_merge.h"
#include "grammar/limits.h"

namespace ringkeep::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(ExprPool& pool, const Json& root, const Grammar::JsonOptions& options)
      : pool_(pool), blocks_(pool, options), document_(root), root_(root) {}

  // The root, with every rule that it needs.
  Result<ExprId> compile();

 private:
  struct Open {
    uint32_t rule;
    Conjunction schemas;
  };
  Result<ExprId> value_of(const Conjunction& schemas);  // a call of its rule
  Result<ExprId> body(const Conjunction& schemas);
  Result<ExprId> without_alternatives(const Keywords& keywords);
  Result<ExprId> enumerated(const Keywords& keywords);
  Result<ExprId> constant(const Json& value);
  Result<ExprId> number(const Keywords& keywords);
  Result<ExprId> string(const Keywords& keywords);
  Result<ExprId> content(const Keywords& keywords);
  Result<ExprId> array(const Keywords& keywords);
  Result<ExprId> object(Keywords keywords);

  ExprPool& pool_;
  JsonBlocks blocks_;
  SchemaDocument document_;
  const Json& root_;
  std::map<std::vector<const Json*>, uint32_t> rules_;  // by the schemas that hold together
  std::vector<Open> open_;                              // rules without a body yet
  std::map<std::string, ExprId> string_rules_;          // contents, by what is asked of them
  uint64_t budget_ = kMostSchemaWork;                   // for intersections and enums
};

// What a string's content may be, in its one spelling. Errors (usage): a pattern outside the
// subset.
struct StringLimits {
  uint32_t min_length = 0, max_length = UINT32_MAX;                    // characters
  std::vector<std::pair<std::string, std::string>> patterns, formats;  // with their pointers
};
Result<ExprId> string_content(ExprPool& pool, const StringLimits& limits, uint64_t& budget);

// One of several texts; they need not be sorted.
ExprId one_of(ExprPool& pool, std::vector<std::string> texts);
// A string in its one spelling, with quotes, that is none of `names`.
ExprId other_string(ExprPool& pool, const std::vector<std::string>& names);

}  // namespace ringkeep::grammar
