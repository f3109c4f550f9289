// The syntax tree of a template.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace ringkeep::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr star;       // *args
  ExpressionPtr star_star;  // **kwargs
};

struct Constant {
  Value value;
};
struct Name {
  std::string name;
};
struct ListLiteral {
  std::vector<ExpressionPtr> items;
  bool tuple = false;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
enum class UnaryOp : uint8_t { negate, plus, logical_not };
struct Unary {
  UnaryOp op;
  ExpressionPtr operand;
};
enum class BinaryOp : uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
struct Binary {
  BinaryOp op;
  ExpressionPtr left, right;
};
struct Logic {
  bool is_and;
  ExpressionPtr left, right;
};
struct Concat {
  std::vector<ExpressionPtr> parts;
};
enum class CompareOp : uint8_t { eq, ne, lt, le, gt, ge, in, not_in };
struct Compare {
  ExpressionPtr first;
  std::vector<std::pair<CompareOp, ExpressionPtr>> rest;
};
struct Conditional {
  ExpressionPtr test, then, otherwise;
};  // otherwise may be null
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Item {
  ExpressionPtr object, key;
};
struct Slice {
  ExpressionPtr object, start, stop, step;
};  // each bound may be null
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
// `input` is null in a filter block; `function` is null when the name is unknown, which is an
// error only when it is reached (under an if, as jinja2 has it).
struct Filter {
  ExpressionPtr input;
  std::string name;
  FilterFunction function;
  CallArguments arguments;
};
struct Test {
  ExpressionPtr input;
  std::string name;
  TestFunction function;
  CallArguments arguments;
};

struct Expression {
  using Node = std::variant<Constant, Name, ListLiteral, DictLiteral, Unary, Binary, Logic, Concat,
                            Compare, Conditional, Attribute, Item, Slice, Call, Filter, Test>;
  Node node;
  uint32_t offset = 0;
  int depth = 1;
};

struct Statement;
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

// What a value is assigned to: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  std::string name;
  std::string attribute;      // of the namespace `name`; else empty
  std::vector<Target> items;  // tuple
  bool tuple = false;
  uint32_t offset = 0;
};

struct Signature {
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct Data {
  std::string text;
};
struct Output {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr filter;  // may be null
  Body body, otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;
  Body body;
};  // filter may be null
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> values;
  Body body;
};
struct MacroDefinition {
  std::string name;
  Signature signature;
  Body body;
};
struct CallBlock {
  ExpressionPtr call;
  MacroDefinition caller;
};
struct FilterBlock {
  ExpressionPtr filter;
  Body body;
};
struct Scoped {
  Body body;
};  // a generation block: marks text, has its own scope
struct Break {};
struct Continue {};

struct Statement {
  using Node = std::variant<Data, Output, If, For, Set, SetBlock, With, MacroDefinition, CallBlock,
                            FilterBlock, Scoped, Break, Continue>;
  Node node;
  uint32_t offset = 0;
};

}  // namespace ringkeep::text::jinja
