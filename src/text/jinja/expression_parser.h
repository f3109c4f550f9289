// The expressions of the language, by recursive descent in the order of jinja2's precedence.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast_depth.h"
#include "text/jinja/lexer.h"

namespace ringkeep::text::jinja {

// The tree is walked recursively: by the parser, the evaluator and its destructor.
inline constexpr int kMaxNesting = 120;  // of operands and brackets (a bracket counts twice)
inline constexpr int kMaxStatementNesting = 60;
inline constexpr int kMaxExpressionDepth = 250;  // of a tree, also along a chain such as a + b + c

// Throws SyntaxError. Included by the parser of statements alone, which derives from it.
class ExpressionParser {
 protected:
  explicit ExpressionParser(std::string_view source) : tokens_(tokenize(source)) {}

  // ---- tokens ----
  const Token& current() const { return tokens_[pos_]; }
  const Token& look() const { return tokens_[std::min(pos_ + 1, tokens_.size() - 1)]; }
  Token next() {
    Token token = current();
    if (pos_ + 1 < tokens_.size()) ++pos_;
    return token;
  }
  bool is_op(std::string_view op) const {
    return current().kind == TokenKind::op && current().text == op;
  }
  bool is_word(std::string_view word) const {
    return current().kind == TokenKind::name && current().text == word;
  }
  bool is_word(std::initializer_list<const char*> words) const {
    return std::any_of(words.begin(), words.end(), [&](const char* w) { return is_word(w); });
  }
  bool skip_op(std::string_view op) {
    if (!is_op(op)) return false;
    next();
    return true;
  }
  bool skip_word(std::string_view word) {
    if (!is_word(word)) return false;
    next();
    return true;
  }

  [[noreturn]] static void fail(const Token& token, std::string message) {
    throw SyntaxError{std::move(message), token.offset};
  }
  static std::string describe(const Token& token) {
    switch (token.kind) {
      case TokenKind::data: return "text";
      case TokenKind::variable_begin: return "'{{'";
      case TokenKind::variable_end: return "'}}'";
      case TokenKind::block_begin: return "'{%'";
      case TokenKind::block_end: return "'%}'";
      case TokenKind::string: return "a string";
      case TokenKind::integer:
      case TokenKind::floating: return "a number";
      case TokenKind::end: return "the end of the template";
      case TokenKind::name:
      case TokenKind::op: return "'" + token.text + "'";
    }
    return "";
  }
  [[noreturn]] void unexpected(std::string_view expected) const {
    fail(current(), fmt::format("expected {}, found {}", expected, describe(current())));
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) unexpected(fmt::format("'{}'", op));
  }
  Token expect(TokenKind kind, std::string_view what) {
    if (current().kind != kind) unexpected(what);
    return next();
  }

  // Counts the nesting of brackets and statements for as long as it lives.
  class Nest {
   public:
    Nest(const ExpressionParser& parser, int& count, int most) : count_(count) {
      if (++count_ > most) {
        fail(parser.current(), fmt::format("nested deeper than {} levels", most));
      }
    }
    ~Nest() { --count_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    int& count_;
  };

  // Sets a flag for as long as it lives.
  class Flag {
   public:
    Flag(bool& flag, bool value) : flag_(flag), old_(std::exchange(flag, value)) {}
    ~Flag() { flag_ = old_; }
    Flag(const Flag&) = delete;
    Flag& operator=(const Flag&) = delete;

   private:
    bool& flag_;
    bool old_;
  };

  template <typename Node>
  ExpressionPtr make(uint32_t offset, Node node) const {
    const int depth = depth_of(node) + 1;
    if (depth > kMaxExpressionDepth) {
      throw SyntaxError{fmt::format("an expression of more than {} levels", kMaxExpressionDepth),
                        offset};
    }
    return std::make_unique<Expression>(Expression{std::move(node), offset, depth});
  }
  template <typename Node>
  static StatementPtr statement(uint32_t offset, Node node) {
    return std::make_unique<Statement>(Statement{std::move(node), offset});
  }

  // ---- expressions ----
  bool tuple_ends(std::string_view end_word) const {
    return current().kind == TokenKind::variable_end || current().kind == TokenKind::block_end ||
           is_op(")") || (!end_word.empty() && is_word(end_word));
  }

  // One expression, or several with commas: a tuple. Empty only inside parentheses.
  ExpressionPtr tuple(bool conditional, std::string_view end_word = "", bool parentheses = false) {
    const uint32_t offset = current().offset;
    ListLiteral list;
    list.tuple = true;
    bool is_tuple = false;
    while (true) {
      if (!list.items.empty()) expect_op(",");
      if (tuple_ends(end_word)) break;
      list.items.push_back(conditional ? expression() : logical_or());
      if (!is_op(",")) break;
      is_tuple = true;
    }
    if (!is_tuple) {
      if (!list.items.empty()) return std::move(list.items.front());
      if (!parentheses) unexpected("an expression");
    }
    return make(offset, std::move(list));
  }

  ExpressionPtr expression() {
    const Nest nest(*this, nesting_, kMaxNesting);
    const uint32_t offset = current().offset;
    const Flag soft(soft_, soft_);
    const size_t known = unknown_.size();
    ExpressionPtr value = logical_or();
    if (is_word("if")) {  // inside a conditional expression unknown names are no error yet
      unknown_.resize(known);
      soft_ = true;
    }
    while (skip_word("if")) {
      ExpressionPtr test = logical_or();
      ExpressionPtr otherwise = skip_word("else") ? expression() : nullptr;
      value = make(offset, Conditional{std::move(test), std::move(value), std::move(otherwise)});
    }
    return value;
  }

  ExpressionPtr logical_or() {
    const uint32_t offset = current().offset;
    ExpressionPtr left = logical_and();
    while (skip_word("or")) left = make(offset, Logic{false, std::move(left), logical_and()});
    return left;
  }

  ExpressionPtr logical_and() {
    const uint32_t offset = current().offset;
    ExpressionPtr left = logical_not();
    while (skip_word("and")) left = make(offset, Logic{true, std::move(left), logical_not()});
    return left;
  }

  ExpressionPtr logical_not() {
    const uint32_t offset = current().offset;
    if (!skip_word("not")) return comparison();
    const Nest nest(*this, nesting_, kMaxNesting);
    return make(offset, Unary{UnaryOp::logical_not, logical_not()});
  }

  std::optional<CompareOp> comparison_operator() {
    constexpr std::pair<const char*, CompareOp> kOps[] = {
        {"==", CompareOp::eq}, {"!=", CompareOp::ne}, {"<", CompareOp::lt},
        {"<=", CompareOp::le}, {">", CompareOp::gt},  {">=", CompareOp::ge}};
    for (const auto& [text, op] : kOps) {
      if (skip_op(text)) return op;
    }
    if (skip_word("in")) return CompareOp::in;
    if (is_word("not") && look().kind == TokenKind::name && look().text == "in") {
      next();
      next();
      return CompareOp::not_in;
    }
    return std::nullopt;
  }

  ExpressionPtr comparison() {
    const uint32_t offset = current().offset;
    ExpressionPtr first = sum();
    Compare node;
    while (const auto op = comparison_operator()) node.rest.emplace_back(*op, sum());
    if (node.rest.empty()) return first;
    node.first = std::move(first);
    return make(offset, std::move(node));
  }

  ExpressionPtr sum() {
    ExpressionPtr left = concatenation();
    while (is_op("+") || is_op("-")) {
      const Token op = next();
      left = make(op.offset, Binary{op.text == "+" ? BinaryOp::add : BinaryOp::subtract,
                                    std::move(left), concatenation()});
    }
    return left;
  }

  ExpressionPtr concatenation() {
    const uint32_t offset = current().offset;
    ExpressionPtr first = product();
    if (!is_op("~")) return first;
    Concat node;
    node.parts.push_back(std::move(first));
    while (skip_op("~")) node.parts.push_back(product());
    return make(offset, std::move(node));
  }

  ExpressionPtr product() {
    constexpr std::pair<const char*, BinaryOp> kOps[] = {{"*", BinaryOp::multiply},
                                                         {"/", BinaryOp::divide},
                                                         {"//", BinaryOp::floor_divide},
                                                         {"%", BinaryOp::modulo}};
    ExpressionPtr left = power();
    while (true) {
      const auto* op = std::find_if(std::begin(kOps), std::end(kOps),
                                    [&](const auto& entry) { return is_op(entry.first); });
      if (op == std::end(kOps)) return left;
      const Token token = next();
      left = make(token.offset, Binary{op->second, std::move(left), power()});
    }
  }

  ExpressionPtr power() {  // left to right, as jinja2 has it
    ExpressionPtr left = unary(true);
    while (is_op("**")) {
      const Token op = next();
      left = make(op.offset, Binary{BinaryOp::power, std::move(left), unary(true)});
    }
    return left;
  }

  ExpressionPtr unary(bool with_filters) {
    const Nest nest(*this, nesting_, kMaxNesting);
    const uint32_t offset = current().offset;
    ExpressionPtr value;
    if (skip_op("-")) {
      value = make(offset, Unary{UnaryOp::negate, unary(false)});
    } else if (skip_op("+")) {
      value = make(offset, Unary{UnaryOp::plus, unary(false)});
    } else {
      value = primary();
    }
    value = postfix(std::move(value));
    return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
  }

  ExpressionPtr primary() {
    const Token token = current();
    switch (token.kind) {
      case TokenKind::name:
        next();
        if (token.text == "true" || token.text == "True")
          return make(token.offset, Constant{Value(true)});
        if (token.text == "false" || token.text == "False")
          return make(token.offset, Constant{Value(false)});
        if (token.text == "none" || token.text == "None")
          return make(token.offset, Constant{Value()});
        note_special(token.text);
        return make(token.offset, Name{token.text});
      case TokenKind::string: {
        std::string text;
        while (current().kind == TokenKind::string) text += next().text;
        return make(token.offset, Constant{Value::string(std::move(text))});
      }
      case TokenKind::integer: next(); return make(token.offset, Constant{Value(token.integer)});
      case TokenKind::floating: next(); return make(token.offset, Constant{Value(token.floating)});
      default: break;
    }
    if (skip_op("(")) {
      ExpressionPtr value = tuple(/*conditional=*/true, "", /*parentheses=*/true);
      expect_op(")");
      return value;
    }
    if (skip_op("[")) return list_literal(token.offset);
    if (skip_op("{")) return dict_literal(token.offset);
    unexpected("an expression");
  }

  void note_special(const std::string& name) {
    for (Signature* macro : macros_) {
      if (name == "caller") macro->uses_caller = true;
      if (name == "varargs") macro->uses_varargs = true;
      if (name == "kwargs") macro->uses_kwargs = true;
    }
  }

  ExpressionPtr list_literal(uint32_t offset) {
    ListLiteral list;
    while (!is_op("]")) {
      if (!list.items.empty()) expect_op(",");
      if (is_op("]")) break;
      list.items.push_back(expression());
    }
    expect_op("]");
    return make(offset, std::move(list));
  }

  ExpressionPtr dict_literal(uint32_t offset) {
    DictLiteral dict;
    while (!is_op("}")) {
      if (!dict.entries.empty()) expect_op(",");
      if (is_op("}")) break;
      ExpressionPtr key = expression();
      expect_op(":");
      dict.entries.emplace_back(std::move(key), expression());
    }
    expect_op("}");
    return make(offset, std::move(dict));
  }

  ExpressionPtr postfix(ExpressionPtr value) {
    while (true) {
      const Token token = current();
      if (skip_op(".")) {
        if (current().kind == TokenKind::name) {
          value = make(token.offset, Attribute{std::move(value), next().text});
        } else if (current().kind == TokenKind::integer) {
          ExpressionPtr key = make(token.offset, Constant{Value(next().integer)});
          value = make(token.offset, Item{std::move(value), std::move(key)});
        } else {
          unexpected("a name or a number");
        }
      } else if (skip_op("[")) {
        value = subscript(std::move(value), token.offset);
      } else if (is_op("(")) {
        value = make(token.offset, Call{std::move(value), call_arguments()});
      } else {
        return value;
      }
    }
  }

  ExpressionPtr subscript(ExpressionPtr object, uint32_t offset) {
    ExpressionPtr start = is_op(":") ? nullptr : expression();
    if (!is_op(":")) {
      if (is_op(",")) {  // x[a, b]: the key is a tuple
        ListLiteral key;
        key.tuple = true;
        key.items.push_back(std::move(start));
        while (skip_op(",")) key.items.push_back(expression());
        start = make(offset, std::move(key));
      }
      expect_op("]");
      return make(offset, Item{std::move(object), std::move(start)});
    }
    expect_op(":");
    Slice slice;
    slice.object = std::move(object);
    slice.start = std::move(start);
    if (!is_op("]") && !is_op(":")) slice.stop = expression();
    if (skip_op(":") && !is_op("]")) slice.step = expression();
    expect_op("]");
    return make(offset, std::move(slice));
  }

  CallArguments call_arguments() {
    CallArguments arguments;
    expect_op("(");
    bool first = true;
    while (!is_op(")")) {
      if (!first) expect_op(",");
      first = false;
      if (is_op(")")) break;
      const Token token = current();
      if (skip_op("*")) {
        if (arguments.star || arguments.star_star) fail(token, "unexpected '*'");
        arguments.star = expression();
      } else if (skip_op("**")) {
        if (arguments.star_star) fail(token, "unexpected '**'");
        arguments.star_star = expression();
      } else if (token.kind == TokenKind::name && look().kind == TokenKind::op &&
                 look().text == "=") {
        if (arguments.star_star) fail(token, "a named argument after '**'");
        next();
        next();
        arguments.named.emplace_back(token.text, expression());
      } else {
        if (arguments.star || arguments.star_star || !arguments.named.empty()) {
          fail(token, "a positional argument after a named one");
        }
        arguments.positional.push_back(expression());
      }
    }
    expect_op(")");
    return arguments;
  }

  ExpressionPtr filters_and_tests(ExpressionPtr value) {
    while (true) {
      const Token token = current();
      if (is_op("|")) {
        value = filters(std::move(value), /*inline_start=*/false);
      } else if (is_word("is")) {
        value = test(std::move(value));
      } else if (is_op("(")) {
        value = make(token.offset, Call{std::move(value), call_arguments()});
      } else {
        return value;
      }
    }
  }

  std::string dotted_name(std::string_view what) {
    std::string name = expect(TokenKind::name, what).text;
    while (skip_op(".")) name += "." + expect(TokenKind::name, what).text;
    return name;
  }

  void note_unknown(const Token& token, std::string_view kind, const std::string& name) {
    if (!soft_) unknown_.push_back({fmt::format("unknown {} '{}'", kind, name), token.offset});
  }

  // One or more filters: "| a | b(c)", or without the first bar at the start of a filter block.
  ExpressionPtr filters(ExpressionPtr value, bool inline_start) {
    while (is_op("|") || inline_start) {
      if (!inline_start) next();
      inline_start = false;
      const Token token = current();
      Filter node;
      node.name = dotted_name("the name of a filter");
      node.function = find_filter(node.name);
      if (node.function == nullptr) note_unknown(token, "filter", node.name);
      if (is_op("(")) node.arguments = call_arguments();
      node.input = std::move(value);
      value = make(token.offset, std::move(node));
    }
    return value;
  }

  bool begins_argument() const {
    switch (current().kind) {
      case TokenKind::name: return !is_word({"else", "or", "and"});
      case TokenKind::string:
      case TokenKind::integer:
      case TokenKind::floating: return true;
      default: return is_op("(") || is_op("[") || is_op("{");
    }
  }

  ExpressionPtr test(ExpressionPtr value) {
    next();  // is
    const bool negated = skip_word("not");
    const Token token = current();
    Test node;
    node.name = dotted_name("the name of a test");
    node.function = find_test(node.name);
    if (node.function == nullptr) note_unknown(token, "test", node.name);
    if (is_op("(")) {
      node.arguments = call_arguments();
    } else if (begins_argument()) {
      if (is_word("is")) fail(current(), "tests cannot be chained with 'is'");
      const Nest nest(*this, nesting_, kMaxNesting);
      node.arguments.positional.push_back(postfix(primary()));
    }
    node.input = std::move(value);
    ExpressionPtr result = make(token.offset, std::move(node));
    return negated ? make(token.offset, Unary{UnaryOp::logical_not, std::move(result)})
                   : std::move(result);
  }

  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int nesting_ = 0;  // of brackets
  int statement_nesting_ = 0;
  // Under an if, unknown filters and tests are an error only when they are reached.
  bool soft_ = false;
  std::vector<SyntaxError> unknown_;
  bool in_loop_ = false;
  std::vector<Signature*> macros_;  // that are being parsed
};

}  // namespace ringkeep::text::jinja
