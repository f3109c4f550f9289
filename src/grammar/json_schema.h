// JSON schemas as expressions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "grammar/json_blocks.h"
#include "grammar/json_merge.h"
#include "grammar/limits.h"
#include "grammar/tool_arguments.h"

namespace ringkeep::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(ExprPool& pool, const Json& root, const Grammar::JsonOptions& options,
                 StringNotation strings = {})
      : pool_(pool), blocks_(pool, options, std::move(strings)), document_(root), root_(root) {}

  // The root, with every rule that it needs.
  Result<ExprId> compile();
  // The root as the arguments of a call: an object, written as the format says.
  Result<ExprId> compile_arguments(const ArgumentFormat& format);

 private:
  struct Open {
    uint32_t rule;
    Conjunction schemas;
  };
  struct Members {
    std::vector<std::pair<std::string, Conjunction>> named;  // in order
    std::vector<bool> required;                              // [named]
    size_t least = 0;                                        // that are required
    bool more = false;                                       // and any others
  };
  Status finish_rules();
  Result<ExprId> value_of(const Conjunction& schemas);  // a call of its rule
  Result<ExprId> body(const Conjunction& schemas);
  Result<std::vector<Keywords>> combinations(const Conjunction& schemas) const;
  Result<ExprId> without_alternatives(const Keywords& keywords);
  Result<ExprId> enumerated(const Keywords& keywords);
  // The strings of an enum, of those that are also texts of `also` (may be null).
  Result<std::vector<std::string>> enumerated_strings(const Keywords& keywords,
                                                      const GrammarPtr& also);
  Result<ExprId> constant(const Json& value, const std::string& pointer);
  Result<ExprId> number(const Keywords& keywords);
  Result<ExprId> string(const Keywords& keywords);
  Result<ExprId> content(const Keywords& keywords, const StringNotation& notation,
                         const GrammarPtr& also);
  Result<ExprId> array(const Keywords& keywords);
  Result<std::optional<Members>> members_of(const Keywords& keywords) const;  // none: contradictory
  Result<ExprId> object(const Keywords& keywords);
  Result<std::string> written(std::string_view text, const std::string& pointer, bool name) const;
  Result<ExprId> other_name(const std::vector<std::string>& names, bool bare);

  // The arguments of a call, one parameter after the other (tool_arguments.cpp).
  Result<ExprId> parameters(const Keywords& keywords, const ArgumentFormat& format);
  Result<ExprId> parameter_value(const Conjunction& schemas);
  GrammarPtr unlike(uint8_t types);

  ExprPool& pool_;
  JsonBlocks blocks_;
  SchemaDocument document_;
  const Json& root_;
  std::map<std::vector<const Json*>, uint32_t> rules_;  // by the schemas that hold together
  std::vector<Open> open_;                              // rules without a body yet
  std::map<std::string, ExprId> string_rules_;          // contents, by what is asked of them
  std::map<uint8_t, GrammarPtr> unlike_;                // texts, by types
  uint64_t budget_ = kMostSchemaWork;                   // for intersections and enums
};

// What a string's content may be, in its one spelling, or without limits in any. `also` (may be
// null): texts that it must be among. Errors (usage): a pattern outside the subset.
struct StringLimits {
  uint32_t min_length = 0, max_length = UINT32_MAX;                    // characters
  std::vector<std::pair<std::string, std::string>> patterns, formats;  // with their pointers
  std::string pointer;
};
Result<ExprId> string_content(ExprPool& pool, const StringLimits& limits,
                              const StringNotation& notation, const GrammarPtr& also,
                              uint64_t& budget);

uint8_t json_type(const Json& value);      // a JsonType
Status check_depth(const Json& document);  // errors (usage): nested too deeply

// One of several texts; they need not be sorted.
ExprId one_of(ExprPool& pool, std::vector<std::string> texts);
// A string in its one spelling, with quotes, that is none of `names`.
ExprId other_string(ExprPool& pool, const std::vector<std::string>& names);

}  // namespace ringkeep::grammar
