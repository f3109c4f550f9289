// GBNF, the grammar notation of llama.cpp. Source: its grammars/README.md.
#include <unordered_map>

#include "grammar/code_points.h"
#include "grammar/cursor.h"
#include "grammar/grammar_data.h"
#include "grammar/limits.h"

namespace ringkeep::grammar {
namespace {

constexpr int kMostNesting = 200;  // groups in groups

bool in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class Gbnf {
 public:
  explicit Gbnf(std::string_view source) : at_("gbnf", source) {}

  Result<GrammarPtr> read(std::string_view root) {
    skip_space(true);
    while (!at_.at_end()) {
      RK_TRY(rule());
      skip_space(true);
    }
    for (const auto& [name, entry] : names_) {
      if (entry.defined) continue;
      at_.move_to(entry.first_use);
      return at_.fail("expected a rule with this name somewhere",
                      fmt::format("none named \"{}\"", name));
    }
    const auto found = names_.find(std::string(root));
    if (found == names_.end()) {
      return make_error(ErrorKind::usage,
                        "gbnf: expected a rule \"{}\", found {} rules, none so "
                        "named",
                        root, names_.size());
    }
    const ExprId call = pool_.call(found->second.rule);
    return finish(std::move(pool_), call);
  }

 private:
  struct Name {
    uint32_t rule = 0;
    bool defined = false;
    size_t first_use = 0;
  };

  void skip_space(bool newlines) {
    for (;;) {
      const char c = at_.peek();
      if (at_.at_end()) return;
      if (c == '#') {
        while (!at_.at_end() && at_.peek() != '\n' && at_.peek() != '\r') at_.skip(1);
      } else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r'))) {
        at_.skip(1);
      } else {
        return;
      }
    }
  }

  std::string take_name() {
    size_t size = 0;
    while (in_name(at_.peek(size))) ++size;
    std::string name(at_.rest().substr(0, size));
    at_.skip(size);
    return name;
  }

  Name& named(const std::string& name, size_t use) {
    const auto [entry, fresh] = names_.try_emplace(name);
    if (fresh) entry->second = {.rule = pool_.add_rule(name), .first_use = use};
    return entry->second;
  }

  Status rule() {
    const size_t start = at_.offset();
    const std::string name = take_name();
    if (name.empty()) return at_.fail("expected the name of a rule");
    Name& entry = named(name, start);
    if (entry.defined) {
      at_.move_to(start);
      return at_.fail("expected one definition of a rule",
                      fmt::format("a second one of \"{}\"", name));
    }
    entry.defined = true;
    const uint32_t index = entry.rule;
    skip_space(false);
    if (!at_.take("::=")) return at_.fail(fmt::format("expected ::= after \"{}\"", name));
    skip_space(true);
    pool_.mutable_rules()[index].body = RK_TRY(alternatives(0));
    RK_TRY(check_size(pool_));
    if (!at_.at_end() && at_.peek() != '\n' && at_.peek() != '\r')
      return at_.fail("expected |, a symbol or the end of the line");
    return {};
  }

  Result<ExprId> alternatives(int nesting) {
    std::vector<ExprId> all = {RK_TRY(sequence(nesting))};
    while (at_.take("|")) {
      skip_space(true);
      all.push_back(RK_TRY(sequence(nesting)));
    }
    return pool_.either(all);
  }

  Result<ExprId> sequence(int nesting) {
    std::vector<ExprId> parts;
    for (;;) {
      const char c = at_.peek();
      if (at_.at_end() || c == '|' || c == ')' || c == '\n' || c == '\r') break;
      const ExprId symbol = RK_TRY(this->symbol(nesting));
      parts.push_back(RK_TRY(repeated(symbol, nesting)));
      skip_space(nesting > 0);
    }
    return pool_.sequence(parts);
  }

  Result<ExprId> symbol(int nesting) {
    const char c = at_.peek();
    if (c == '"') return literal();
    if (c == '[') return char_class();
    if (at_.take(".")) return utf8(pool_, CodePoints::all());
    if (c == '(') {
      if (nesting >= kMostNesting)
        return at_.fail(fmt::format("expected groups at most {} deep", kMostNesting), "one more");
      at_.skip(1);
      skip_space(true);
      const ExprId inner = RK_TRY(alternatives(nesting + 1));
      if (!at_.take(")")) return at_.fail("expected )");
      return inner;
    }
    if (in_name(c)) {
      const size_t start = at_.offset();
      const std::string name = take_name();
      return pool_.call(named(name, start).rule);
    }
    if (c == '<' || c == '!')
      return at_.fail("expected a symbol (references to tokens are not supported)");
    return at_.fail("expected a literal, a class, a group or the name of a rule");
  }

  Result<ExprId> repeated(ExprId symbol, int nesting) {
    for (;;) {
      skip_space(nesting > 0);
      if (at_.take("*")) {
        symbol = pool_.repeat(symbol, 0, kUnbounded);
      } else if (at_.take("+")) {
        symbol = pool_.repeat(symbol, 1, kUnbounded);
      } else if (at_.take("?")) {
        symbol = pool_.repeat(symbol, 0, 1);
      } else if (at_.take("{")) {
        symbol = RK_TRY(counted(symbol));
      } else {
        return symbol;
      }
    }
  }

  Result<ExprId> counted(ExprId symbol) {
    skip_space(true);
    const bool from_zero = at_.peek() == ',';
    const uint32_t low = from_zero ? 0 : RK_TRY(at_.take_number(kMostRepeats));
    uint32_t high = low;
    skip_space(true);
    if (at_.take(",")) {
      skip_space(true);
      const size_t start = at_.offset();
      if (at_.peek() == '}' && !from_zero) {
        high = kUnbounded;
      } else {
        high = RK_TRY(at_.take_number(kMostRepeats));
      }
      if (high < low) {
        at_.move_to(start);
        return at_.fail(fmt::format("expected at least {}", low), fmt::format("{}", high));
      }
      skip_space(true);
    }
    if (!at_.take("}")) return at_.fail("expected }");
    return pool_.repeat(symbol, low, high);
  }

  Result<uint32_t> character() {
    if (!at_.take("\\")) return at_.take_point();
    const char c = at_.peek();
    switch (c) {
      case 'x': at_.skip(1); return at_.take_hex(2);
      case 'u': at_.skip(1); return at_.take_hex(4);
      case 'U': at_.skip(1); return at_.take_hex(8);
      case 't': at_.skip(1); return '\t';
      case 'r': at_.skip(1); return '\r';
      case 'n': at_.skip(1); return '\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
      case '/':
      case '\'': at_.skip(1); return static_cast<uint32_t>(c);
      default: return at_.fail("expected one of x u U t r n \\ \" [ ] - ^ after a backslash");
    }
  }

  Result<ExprId> literal() {
    at_.skip(1);
    std::string text;
    while (!at_.take("\"")) {
      if (at_.at_end() || at_.peek() == '\n') return at_.fail("expected \" at a literal's end");
      text += utf8(RK_TRY(character()));
    }
    return pool_.literal(text);
  }

  Result<ExprId> char_class() {
    const size_t start = at_.offset();
    at_.skip(1);
    const bool negated = at_.take("^");
    CodePoints points;
    while (!at_.take("]")) {
      if (at_.at_end() || at_.peek() == '\n') return at_.fail("expected ] at a class's end");
      const uint32_t first = RK_TRY(character());
      uint32_t last = first;
      if (at_.peek() == '-' && at_.peek(1) != ']') {
        at_.skip(1);
        last = RK_TRY(character());
        if (last < first) return at_.fail("expected a range upwards", "one downwards");
      }
      points.add(first, last);
    }
    points = negated ? points.complement() : points.normalised();
    if (points.empty()) {
      at_.move_to(start);
      return at_.fail("expected a class with a character in it", "an empty one");
    }
    return utf8(pool_, points);
  }

  Cursor at_;
  ExprPool pool_;
  std::unordered_map<std::string, Name> names_;
};

}  // namespace

Result<GrammarPtr> Grammar::from_gbnf(std::string_view source, std::string_view root) {
  if (source.size() > kMostText) {
    return make_error(ErrorKind::usage, "gbnf: expected at most {} bytes, found {}", kMostText,
                      source.size());
  }
  return Gbnf(source).read(root);
}

}  // namespace ringkeep::grammar
