#include "text/jinja/evaluator.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/loop.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"

namespace ringkeep::text::jinja {
namespace {

class Macro : public Object {
 public:
  Macro(Evaluator& evaluator, const MacroDefinition& definition, std::shared_ptr<Scope> scope)
      : evaluator_(evaluator), definition_(definition), scope_(std::move(scope)) {}
  std::string type_name() const override { return "Macro"; }
  std::string repr(Runtime&, int) const override { return "<Macro '" + definition_.name + "'>"; }
  bool callable() const override { return true; }
  Value call(Runtime&, const Arguments& arguments) override {
    return evaluator_.invoke_macro(definition_, scope_, arguments);
  }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override {
    const Signature& signature = definition_.signature;
    if (name == "name") return runtime.string(definition_.name);
    if (name == "caller") return Value(signature.uses_caller);
    if (name == "catch_kwargs") return Value(signature.uses_kwargs);
    if (name == "catch_varargs") return Value(signature.uses_varargs);
    if (name == "arguments") {
      std::vector<Value> names;
      for (const std::string& p : signature.parameters) names.push_back(runtime.string(p));
      return runtime.tuple(std::move(names));
    }
    return std::nullopt;
  }

 private:
  Evaluator& evaluator_;
  const MacroDefinition& definition_;
  std::shared_ptr<Scope> scope_;
};

}  // namespace

Value* Scope::find_here(std::string_view name) {
  for (auto& [key, value] : variables) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Scope::set(const std::string& name, Value value) {
  if (Value* old = find_here(name)) {
    *old = std::move(value);
  } else {
    variables.emplace_back(name, std::move(value));
  }
}

class Evaluator::Depth {
 public:
  explicit Depth(Evaluator& evaluator) : depth_(evaluator.depth_) {
    if (++depth_ > evaluator.limits().depth) {
      --depth_;
      throw TemplateError{
          fmt::format("evaluation nested deeper than {} levels", evaluator.limits().depth)};
    }
  }
  ~Depth() { --depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  int& depth_;
};

// A new scope under `parent` for as long as it lives.
class Evaluator::ScopeGuard {
 public:
  ScopeGuard(Evaluator& evaluator, std::shared_ptr<Scope> parent) : evaluator_(evaluator) {
    auto scope = std::make_shared<Scope>();
    scope->parent = std::move(parent);
    old_ = std::exchange(evaluator_.scope_, std::move(scope));
  }
  ~ScopeGuard() { evaluator_.scope_ = std::move(old_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Evaluator& evaluator_;
  std::shared_ptr<Scope> old_;
};

Evaluator::~Evaluator() { release_owned(); }

std::string Evaluator::render(const Body& body) {
  run(body);
  return std::move(out_);
}

void Evaluator::write(std::string_view text) {
  if (static_cast<int64_t>(out_.size() + text.size()) > limits().output) {
    throw TemplateError{fmt::format("the output is larger than {} MiB", limits().output >> 20)};
  }
  out_ += text;
}

// ---- statements ----

Evaluator::Flow Evaluator::run(const Body& body) {
  for (const StatementPtr& statement : body) {
    const Flow flow = run(*statement);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Evaluator::Flow Evaluator::run(const Statement& statement) {
  try {
    step();
    const Depth depth(*this);
    return std::visit([this](const auto& node) { return run(node); }, statement.node);
  } catch (TemplateError& error) {
    if (!error.offset) error.offset = statement.offset;
    throw;
  }
}

Evaluator::Flow Evaluator::run(const Data& node) {
  write(node.text);
  return Flow::next;
}

Evaluator::Flow Evaluator::run(const Output& node) {
  write(to_string(*this, evaluate(*node.value)));
  return Flow::next;
}

Evaluator::Flow Evaluator::run(const If& node) {
  for (const auto& [test, body] : node.branches) {
    if (truth(*this, evaluate(*test))) return run(body);
  }
  return run(node.otherwise);
}

Evaluator::Flow Evaluator::run(const For& node) {
  const std::shared_ptr<Scope> outer = scope_;
  Loop::Keep keep;
  if (node.filter) {
    keep = [this, &node, outer](const Value& item) {
      const ScopeGuard guard(*this, outer);
      assign(node.target, item);
      return truth(*this, evaluate(*node.filter));
    };
  }
  const auto loop =
      std::make_shared<Loop>(iterate(*this, evaluate(*node.iterable)), std::move(keep));
  struct Finish {
    Loop& loop;
    ~Finish() { loop.finish(); }
  } finish{*loop};
  bool completed = false;  // jinja2: the else part runs unless one turn reached its end
  while (loop->advance()) {
    step();
    const ScopeGuard guard(*this, outer);
    scope_->set("loop", Value(ObjectPtr(loop)));
    assign(node.target, loop->current());
    const Flow flow = run(node.body);
    if (flow == Flow::break_loop) break;
    if (flow == Flow::next) completed = true;
  }
  if (completed || node.otherwise.empty()) return Flow::next;
  const ScopeGuard guard(*this, outer);
  return run(node.otherwise);
}

Evaluator::Flow Evaluator::run(const Set& node) {
  assign(node.target, evaluate(*node.value));
  return Flow::next;
}

Evaluator::Flow Evaluator::run(const SetBlock& node) {
  std::string text;
  const Flow flow = capture(node.body, text);
  if (flow != Flow::next) return flow;
  Value value = string(std::move(text));
  assign(node.target, node.filter ? filter_chain(*node.filter, value) : std::move(value));
  return Flow::next;
}

Evaluator::Flow Evaluator::run(const With& node) {
  std::vector<Value> values;
  for (const auto& [target, value] : node.values) values.push_back(evaluate(*value));
  const ScopeGuard guard(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) assign(node.values[i].first, std::move(values[i]));
  return run(node.body);
}

Evaluator::Flow Evaluator::run(const MacroDefinition& node) {
  scope_->set(node.name, make_macro(node));
  return Flow::next;
}

Evaluator::Flow Evaluator::run(const CallBlock& node) {
  const Call& call_node = std::get<Call>(node.call->node);
  const Value callee = evaluate(*call_node.callee);
  Arguments args = arguments(call_node.arguments);
  args.named.emplace_back("caller", make_macro(node.caller));
  write(to_string(*this, call(callee, args)));
  return Flow::next;
}

Evaluator::Flow Evaluator::run(const FilterBlock& node) {
  std::string text;
  const Flow flow = capture(node.body, text);
  if (flow != Flow::next) return flow;
  write(to_string(*this, filter_chain(*node.filter, string(std::move(text)))));
  return Flow::next;
}

Evaluator::Flow Evaluator::run(const Scoped& node) {
  const ScopeGuard guard(*this, scope_);
  return run(node.body);
}

Evaluator::Flow Evaluator::capture(const Body& body, std::string& text) {
  const ScopeGuard guard(*this, scope_);
  std::string outer = std::exchange(out_, {});
  const Flow flow = run(body);
  text = std::exchange(out_, std::move(outer));
  return flow;
}

void Evaluator::assign(const Target& target, Value value) {
  if (!target.tuple) {
    if (target.attribute.empty()) return scope_->set(target.name, std::move(value));
    const Value object = evaluate(Name{target.name});
    Namespace* ns = object.object<Namespace>();
    if (ns == nullptr) {
      throw TemplateError{"cannot assign attribute on non-namespace object", false, target.offset};
    }
    return ns->set(*this, target.attribute, std::move(value));
  }
  std::vector<Value> items = iterate(*this, value);
  if (items.size() != target.items.size()) {
    throw TemplateError{
        fmt::format("expected {} values to unpack, found {}", target.items.size(), items.size()),
        false, target.offset};
  }
  for (size_t i = 0; i < items.size(); ++i) assign(target.items[i], std::move(items[i]));
}

// ---- macros and calls ----

Value Evaluator::make_macro(const MacroDefinition& node) {
  // A macro refers to its scope, and the scope to the macro.
  for (auto scope = scope_; scope != nullptr && !scope->owned; scope = scope->parent) {
    scope->owned = true;
    own(scope, [](void* s) { static_cast<Scope*>(s)->variables.clear(); });
  }
  allocate(sizeof(Macro));
  return Value(ObjectPtr(std::make_shared<Macro>(*this, node, scope_)));
}

Value Evaluator::invoke_macro(const MacroDefinition& macro, const std::shared_ptr<Scope>& scope,
                              const Arguments& arguments) {
  const Depth depth(*this);
  const Signature& signature = macro.signature;
  const size_t count = signature.parameters.size();
  const ScopeGuard guard(*this, scope);
  std::vector<std::pair<std::string, Value>> named = arguments.named;
  const auto take = [&](std::string_view name) -> std::optional<Value> {
    const auto it =
        std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.first == name; });
    if (it == named.end()) return std::nullopt;
    Value value = std::move(it->second);
    named.erase(it);
    return value;
  };
  std::vector<std::optional<Value>> given(count);
  for (size_t i = 0; i < count; ++i) {
    given[i] = i < arguments.positional.size() ? std::optional(arguments.positional[i])
                                               : take(signature.parameters[i]);
  }
  if (signature.uses_caller && std::find(signature.parameters.begin(), signature.parameters.end(),
                                         "caller") == signature.parameters.end()) {
    auto caller = take("caller");
    scope_->set("caller", caller ? *std::move(caller) : Value::undefined("No caller defined"));
  }
  if (signature.uses_kwargs) {
    Dict rest;
    for (auto& [name, value] : named) rest.set(*this, string(name), std::move(value));
    scope_->set("kwargs", dict(std::move(rest)));
  } else if (!named.empty()) {
    throw TemplateError{
        fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, named.front().first)};
  }
  if (signature.uses_varargs) {
    std::vector<Value> rest;
    for (size_t i = count; i < arguments.positional.size(); ++i)
      rest.push_back(arguments.positional[i]);
    scope_->set("varargs", tuple(std::move(rest)));
  } else if (arguments.positional.size() > count) {
    throw TemplateError{fmt::format("macro '{}' takes not more than {} argument(s), got {}",
                                    macro.name, count, arguments.positional.size())};
  }
  const size_t first_default = count - signature.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = signature.parameters[i];
    if (given[i]) {
      scope_->set(name, *std::move(given[i]));
    } else if (i >= first_default) {
      scope_->set(name, evaluate(*signature.defaults[i - first_default]));
    } else {
      scope_->set(name, Value::undefined(fmt::format("parameter '{}' was not provided", name)));
    }
  }
  std::string outer = std::exchange(out_, {});
  run(macro.body);
  return string(std::exchange(out_, std::move(outer)));
}

Value Evaluator::call(const Value& callee, const Arguments& arguments) {
  step();
  if (callee.is_undefined()) throw TemplateError{callee.undefined_message()};
  if (callee.is_object()) return callee.as_object().call(*this, arguments);
  throw TemplateError{fmt::format("'{}' object is not callable", type_name(callee))};
}

Arguments Evaluator::arguments(const CallArguments& nodes) {
  Arguments result;
  for (const ExpressionPtr& e : nodes.positional) result.positional.push_back(evaluate(*e));
  if (nodes.star) {
    for (Value& item : iterate(*this, evaluate(*nodes.star)))
      result.positional.push_back(std::move(item));
  }
  for (const auto& [name, e] : nodes.named) result.named.emplace_back(name, evaluate(*e));
  if (nodes.star_star) {
    const Value more = evaluate(*nodes.star_star);
    if (!more.is_dict()) {
      throw TemplateError{
          fmt::format("the argument after ** must be a mapping, not {}", type_name(more))};
    }
    for (const auto& [key, value] : more.as_dict().entries()) {
      result.named.emplace_back(to_text(key, "a keyword"), value);
    }
  }
  return result;
}

// ---- expressions ----

Value Evaluator::evaluate(const Expression& expression) {
  try {
    step();
    const Depth depth(*this);
    return std::visit([this](const auto& node) { return evaluate(node); }, expression.node);
  } catch (TemplateError& error) {
    if (!error.offset) error.offset = expression.offset;
    throw;
  }
}

Value Evaluator::evaluate_or_none(const ExpressionPtr& expression) {
  return expression == nullptr ? Value() : evaluate(*expression);
}

Value Evaluator::evaluate(const Name& node) {
  for (Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    if (const Value* value = scope->find_here(node.name)) return *value;
  }
  if (auto global = find_global(node.name)) return *std::move(global);
  return Value::undefined(fmt::format("'{}' is undefined", node.name));
}

Value Evaluator::evaluate(const ListLiteral& node) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExpressionPtr& item : node.items) items.push_back(evaluate(*item));
  return node.tuple ? tuple(std::move(items)) : list(std::move(items));
}

Value Evaluator::evaluate(const DictLiteral& node) {
  Dict result;
  for (const auto& [key_node, value_node] : node.entries) {
    Value key = evaluate(*key_node);
    require_hashable(key);
    result.set(*this, std::move(key), evaluate(*value_node));
  }
  return dict(std::move(result));
}

Value Evaluator::evaluate(const Unary& node) {
  return jinja::unary(*this, node.op, evaluate(*node.operand));
}

Value Evaluator::evaluate(const Binary& node) {
  const Value left = evaluate(*node.left);
  return binary(*this, node.op, left, evaluate(*node.right));
}

Value Evaluator::evaluate(const Logic& node) {
  Value left = evaluate(*node.left);
  return truth(*this, left) == node.is_and ? evaluate(*node.right) : left;
}

Value Evaluator::evaluate(const Concat& node) {
  std::string text;
  for (const ExpressionPtr& part : node.parts) {
    text += to_string(*this, evaluate(*part));
    if (static_cast<int64_t>(text.size()) > limits().output) break;  // string() refuses it
  }
  return string(std::move(text));
}

Value Evaluator::evaluate(const Compare& node) {
  Value left = evaluate(*node.first);
  for (const auto& [op, operand] : node.rest) {
    Value right = evaluate(*operand);
    if (!compare_op(*this, op, left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Evaluator::evaluate(const Conditional& node) {
  if (truth(*this, evaluate(*node.test))) return evaluate(*node.then);
  if (node.otherwise) return evaluate(*node.otherwise);
  return Value::undefined("an inline if was false and has no else");
}

Value Evaluator::evaluate(const Attribute& node) {
  return get_attribute(*this, evaluate(*node.object), node.name);
}

Value Evaluator::evaluate(const Item& node) {
  const Value object = evaluate(*node.object);
  return get_item(*this, object, evaluate(*node.key));
}

Value Evaluator::evaluate(const Slice& node) {
  const Value object = evaluate(*node.object);
  const Value start = evaluate_or_none(node.start);
  const Value stop = evaluate_or_none(node.stop);
  return get_slice(*this, object, start, stop, evaluate_or_none(node.step));
}

Value Evaluator::evaluate(const Call& node) {
  const Value callee = evaluate(*node.callee);
  return call(callee, arguments(node.arguments));
}

Value Evaluator::filter_chain(const Expression& filters, const Value& input) {
  const Value* outer = std::exchange(block_input_, &input);
  Value result = evaluate(filters);
  block_input_ = outer;
  return result;
}

Value Evaluator::evaluate(const Filter& node) {
  const Value input = node.input ? evaluate(*node.input) : *block_input_;
  if (node.function == nullptr) throw TemplateError{fmt::format("unknown filter '{}'", node.name)};
  return node.function(*this, input, arguments(node.arguments));
}

Value Evaluator::evaluate(const Test& node) {
  const Value input = evaluate(*node.input);
  if (node.function == nullptr) throw TemplateError{fmt::format("unknown test '{}'", node.name)};
  return Value(node.function(*this, input, arguments(node.arguments)));
}

}  // namespace ringkeep::text::jinja
