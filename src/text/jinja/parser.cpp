#include "text/jinja/parser.h"

#include "text/jinja/expression_parser.h"

namespace ringkeep::text::jinja {
namespace {

class Parser : private ExpressionParser {
 public:
  explicit Parser(std::string_view source) : ExpressionParser(source) {}

  Body run() {
    Body body = statements({});
    if (current().kind != TokenKind::end) unexpected("the end of the template");
    if (!unknown_.empty()) throw unknown_.front();
    return body;
  }

 private:
  // Until one of the tags `ends` (which stays current, after its "{%") or the end.
  Body statements(std::initializer_list<const char*> ends) {
    const Nest nest(*this, statement_nesting_, kMaxStatementNesting);
    Body body;
    while (current().kind != TokenKind::end) {
      const uint32_t offset = current().offset;
      if (current().kind == TokenKind::data) {
        body.push_back(statement(offset, Data{next().text}));
      } else if (current().kind == TokenKind::variable_begin) {
        next();
        ExpressionPtr value = tuple(/*conditional=*/true);
        expect(TokenKind::variable_end, "'}}'");
        body.push_back(statement(offset, Output{std::move(value)}));
      } else {
        next();  // "{%"
        if (is_word(ends)) return body;
        tag(body);
        expect(TokenKind::block_end, "'%}'");
      }
    }
    if (ends.size() > 0) {
      std::string names;
      for (const char* end : ends)
        names += fmt::format("{}'{{% {} %}}'", names.empty() ? "" : " or ", end);
      unexpected(names);
    }
    return body;
  }

  // The body of a block tag: from its "%}" to one of `ends`.
  Body block(std::initializer_list<const char*> ends) {
    skip_op(":");
    expect(TokenKind::block_end, "'%}'");
    return statements(ends);
  }

  void tag(Body& body) {
    const Token token = expect(TokenKind::name, "the name of a tag");
    const std::string& name = token.text;
    const uint32_t offset = token.offset;
    if (name == "if") {
      body.push_back(parse_if(offset));
    } else if (name == "for") {
      body.push_back(parse_for(offset));
    } else if (name == "set") {
      body.push_back(parse_set(offset));
    } else if (name == "macro") {
      body.push_back(statement(offset, parse_macro()));
    } else if (name == "call") {
      body.push_back(parse_call_block(offset));
    } else if (name == "filter") {
      const Flag soft(soft_, false);
      ExpressionPtr filter = filters(nullptr, /*inline_start=*/true);
      Body inner = block({"endfilter"});
      next();
      body.push_back(statement(offset, FilterBlock{std::move(filter), std::move(inner)}));
    } else if (name == "with") {
      body.push_back(parse_with(offset));
    } else if (name == "generation") {
      const Flag soft(soft_, false);
      const Flag loop(in_loop_, false);
      Body inner = block({"endgeneration"});
      next();
      body.push_back(statement(offset, Scoped{std::move(inner)}));
    } else if (name == "print") {
      do {
        body.push_back(statement(offset, Output{expression()}));
      } while (skip_op(","));
    } else if (name == "break" || name == "continue") {
      if (!in_loop_) fail(token, fmt::format("'{}' outside of a loop", name));
      body.push_back(name == "break" ? statement(offset, Break{}) : statement(offset, Continue{}));
    } else {
      refuse(token);
    }
  }

  [[noreturn]] static void refuse(const Token& token) {
    for (const char* name : {"include", "import", "from", "extends", "block", "autoescape"}) {
      if (token.text == name) {
        fail(token, fmt::format("the tag '{}' is not supported in a chat template", name));
      }
    }
    fail(token, fmt::format("unknown tag '{}'", token.text));
  }

  StatementPtr parse_if(uint32_t offset) {
    const Flag soft(soft_, true);
    If node;
    while (true) {
      ExpressionPtr test = tuple(/*conditional=*/false);
      Body then = block({"elif", "else", "endif"});
      node.branches.emplace_back(std::move(test), std::move(then));
      if (skip_word("elif")) continue;
      if (skip_word("else")) node.otherwise = block({"endif"});
      next();
      return statement(offset, std::move(node));
    }
  }

  StatementPtr parse_for(uint32_t offset) {
    const Flag soft(soft_, false);
    For node;
    node.target = target("in");
    if (!skip_word("in")) unexpected("'in'");
    node.iterable = tuple(/*conditional=*/false, "recursive");
    if (skip_word("if")) node.filter = expression();
    if (is_word("recursive")) fail(current(), "recursive loops are not supported");
    {
      const Flag loop(in_loop_, true);
      node.body = block({"else", "endfor"});
    }
    if (skip_word("else")) node.otherwise = block({"endfor"});
    next();
    return statement(offset, std::move(node));
  }

  StatementPtr parse_set(uint32_t offset) {
    Target to = target("");
    if (skip_op("=")) return statement(offset, Set{std::move(to), tuple(/*conditional=*/true)});
    const Flag soft(soft_, false);
    ExpressionPtr filter = is_op("|") ? filters(nullptr, /*inline_start=*/false) : nullptr;
    Body body = block({"endset"});
    next();
    return statement(offset, SetBlock{std::move(to), std::move(filter), std::move(body)});
  }

  StatementPtr parse_with(uint32_t offset) {
    const Flag soft(soft_, false);
    With node;
    while (current().kind != TokenKind::block_end) {
      if (!node.values.empty()) expect_op(",");
      Target to = target("");
      expect_op("=");
      node.values.emplace_back(std::move(to), expression());
    }
    node.body = block({"endwith"});
    next();
    return statement(offset, std::move(node));
  }

  Signature signature() {
    Signature result;
    expect_op("(");
    while (!is_op(")")) {
      if (!result.parameters.empty()) expect_op(",");
      result.parameters.push_back(assignable_name());
      if (skip_op("=")) {
        result.defaults.push_back(expression());
      } else if (!result.defaults.empty()) {
        fail(current(), "a parameter without a default after one with a default");
      }
    }
    expect_op(")");
    return result;
  }

  // The body of a macro or a call block; notes which of the special names it reads.
  void macro_body(MacroDefinition& macro, const char* end) {
    const Flag soft(soft_, false);
    const Flag loop(in_loop_, false);
    macros_.push_back(&macro.signature);
    macro.body = block({end});
    macros_.pop_back();
    next();
  }

  MacroDefinition parse_macro() {
    MacroDefinition macro;
    macro.name = assignable_name();
    macro.signature = signature();
    macro_body(macro, "endmacro");
    return macro;
  }

  StatementPtr parse_call_block(uint32_t offset) {
    CallBlock node;
    node.caller.name = "caller";
    if (is_op("(")) node.caller.signature = signature();
    const Token begin = current();
    node.call = expression();
    if (!std::holds_alternative<Call>(node.call->node)) fail(begin, "expected a call");
    macro_body(node.caller, "endcall");
    return statement(offset, std::move(node));
  }

  std::string assignable_name() {
    const Token token = expect(TokenKind::name, "a name");
    for (const char* name : {"true", "false", "none", "True", "False", "None"}) {
      if (token.text == name) fail(token, fmt::format("cannot assign to '{}'", name));
    }
    return token.text;
  }

  Target target_item() {
    Target to;
    to.offset = current().offset;
    if (skip_op("(")) {
      const Nest nest(*this, nesting_, kMaxNesting);
      to = target("");
      to.tuple = true;
      expect_op(")");
      return to;
    }
    to.name = assignable_name();
    if (skip_op(".")) to.attribute = expect(TokenKind::name, "the name of an attribute").text;
    return to;
  }

  Target target(std::string_view end_word) {
    Target first = target_item();
    if (!is_op(",")) return first;
    Target to;
    to.tuple = true;
    to.offset = first.offset;
    to.items.push_back(std::move(first));
    while (skip_op(",")) {
      if (is_op("=") || is_op(")") || current().kind == TokenKind::block_end ||
          (!end_word.empty() && is_word(end_word))) {
        break;
      }
      to.items.push_back(target_item());
    }
    return to;
  }
};

}  // namespace

Body parse_template(std::string_view source) { return Parser(source).run(); }

}  // namespace ringkeep::text::jinja
