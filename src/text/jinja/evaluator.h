// Walks the syntax tree and writes the text.
#pragma once

#include <string>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace ringkeep::text::jinja {

// Variables of one block of the template; the chain of parents ends at the context.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> variables;
  bool owned = false;  // captured by a macro
  Value* find_here(std::string_view name);
  void set(const std::string& name, Value value);
};

class Evaluator : public Runtime {
 public:
  Evaluator() = default;
  void define(const std::string& name, Value value) { scope_->set(name, std::move(value)); }
  ~Evaluator() override;

  std::string render(const Body& body);  // throws TemplateError

  Value call(const Value& callee, const Arguments& arguments) override;
  Value invoke_macro(const MacroDefinition& macro, const std::shared_ptr<Scope>& scope,
                     const Arguments& arguments);

 private:
  enum class Flow { next, break_loop, continue_loop };
  class Depth;
  class ScopeGuard;

  Flow run(const Body& body);
  Flow run(const Statement& statement);
  Flow run(const Data& node);
  Flow run(const Output& node);
  Flow run(const If& node);
  Flow run(const For& node);
  Flow run(const Set& node);
  Flow run(const SetBlock& node);
  Flow run(const With& node);
  Flow run(const MacroDefinition& node);
  Flow run(const CallBlock& node);
  Flow run(const FilterBlock& node);
  Flow run(const Scoped& node);
  Flow run(const Break&) { return Flow::break_loop; }
  Flow run(const Continue&) { return Flow::continue_loop; }

  Value evaluate(const Expression& expression);
  Value evaluate(const Constant& node) { return node.value; }
  Value evaluate(const Name& node);
  Value evaluate(const ListLiteral& node);
  Value evaluate(const DictLiteral& node);
  Value evaluate(const Unary& node);
  Value evaluate(const Binary& node);
  Value evaluate(const Logic& node);
  Value evaluate(const Concat& node);
  Value evaluate(const Compare& node);
  Value evaluate(const Conditional& node);
  Value evaluate(const Attribute& node);
  Value evaluate(const Item& node);
  Value evaluate(const Slice& node);
  Value evaluate(const Call& node);
  Value evaluate(const Filter& node);
  Value evaluate(const Test& node);

  Value evaluate_or_none(const ExpressionPtr& expression);
  Value filter_chain(const Expression& filters, const Value& input);
  Arguments arguments(const CallArguments& nodes);
  // Runs it in a scope of its own; what it writes goes to `text`.
  Flow capture(const Body& body, std::string& text);
  Value make_macro(const MacroDefinition& node);
  void assign(const Target& target, Value value);
  void write(std::string_view text);

  std::shared_ptr<Scope> scope_ = std::make_shared<Scope>();
  std::string out_;
  const Value* block_input_ = nullptr;  // what the innermost filter block has written
  int depth_ = 0;
};

}  // namespace ringkeep::text::jinja
