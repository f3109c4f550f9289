// A regular subset of ECMA-262's expressions (the dialect of JSON Schema), which Python's re and
// PCRE2 read alike: \d and \w are ASCII, \s is ECMA's white space, . is no line terminator.
#include "grammar/regex.h"

#include "grammar/cursor.h"
#include "grammar/grammar_data.h"
#include "grammar/limits.h"

namespace ringkeep::grammar {
namespace {

constexpr int kMostNesting = 200;

const CodePoints& digits() {
  static const CodePoints points{{'0', '9'}};
  return points;
}
const CodePoints& word() {
  static const CodePoints points{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return points;
}
const CodePoints& line_ends() {
  static const CodePoints points{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return points;
}
const CodePoints& white_space() {
  static const CodePoints points{
      {'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
      {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return points;
}

class Regex {
 public:
  Regex(ExprPool& pool, std::string_view pattern, const RegexOptions& options)
      : pool_(pool), at_(options.name, pattern), options_(options) {}

  Result<ExprId> read() {
    std::vector<ExprId> all;
    do {
      const bool from_start = anchors('^');
      ExprId expr = RK_TRY(sequence(0));
      const bool to_end = anchors('$');
      if (!at_.at_end() && at_.peek() != '|') {
        if (at_.peek() == ')') return at_.fail("expected no ) without (");
        return at_.fail(
            "expected the end of an alternative after $ (anchors within are not "
            "supported)");
      }
      if (options_.search && !from_start) expr = pool_.concat(anything(), expr);
      if (options_.search && !to_end) expr = pool_.concat(expr, anything());
      all.push_back(expr);
      RK_TRY(check_size(pool_));
    } while (at_.take("|"));
    return pool_.either(all);
  }

 private:
  ExprId write(const CodePoints& points) { return options_.write(pool_, points); }
  ExprId anything() { return pool_.repeat(write(CodePoints::all()), 0, kUnbounded); }

  bool anchors(char c) {
    bool any = false;
    while (at_.peek() == c && !at_.at_end()) {
      at_.skip(1);
      any = true;
    }
    return any;
  }

  Result<ExprId> alternatives(int nesting) {
    std::vector<ExprId> all = {RK_TRY(sequence(nesting))};
    while (at_.take("|")) all.push_back(RK_TRY(sequence(nesting)));
    return pool_.either(all);
  }

  Result<ExprId> sequence(int nesting) {
    std::vector<ExprId> parts;
    while (!at_.at_end() && at_.peek() != '|' && at_.peek() != ')') {
      if (at_.peek() == '^' || at_.peek() == '$') {
        if (nesting == 0 && at_.peek() == '$') break;
        return at_.fail(
            "expected anchors only at the ends of the whole expression or of its "
            "alternatives");
      }
      const ExprId atom = RK_TRY(this->atom(nesting));
      parts.push_back(RK_TRY(quantified(atom)));
    }
    return pool_.sequence(parts);
  }

  Result<ExprId> atom(int nesting) {
    const char c = at_.peek();
    if (c == '(') return group(nesting);
    if (c == '[') return write(RK_TRY(char_class()));
    if (at_.take(".")) return write(line_ends().complement());
    if (c == '*' || c == '+' || c == '?') return at_.fail("expected something to repeat before it");
    if (c == '\\') return write(RK_TRY(escaped(false)).points);
    const uint32_t point = RK_TRY(at_.take_point());
    return write(CodePoints{{point, point}});
  }

  Result<ExprId> group(int nesting) {
    if (nesting >= kMostNesting)
      return at_.fail(fmt::format("expected groups at most {} deep", kMostNesting), "one more");
    const Cursor start = at_;
    at_.skip(1);
    if (at_.take("?")) {
      if (at_.starts("=") || at_.starts("!")) return start.fail(kRegular, "a look-ahead");
      if (at_.starts("<=") || at_.starts("<!")) return start.fail(kRegular, "a look-behind");
      if (at_.starts(">")) return start.fail(kRegular, "an atomic group");
      if (at_.starts("P=")) return start.fail(kRegular, "a back-reference");
      if (at_.take("P<") || at_.take("<")) {
        while (!at_.at_end() && at_.peek() != '>') at_.skip(1);
        if (!at_.take(">")) return at_.fail("expected > after the name of a group");
      } else if (!at_.take(":")) {
        return start.fail("expected ( or (?: or (?<name>",
                          "an inline flag or another (? construct");
      }
    }
    const ExprId inner = RK_TRY(alternatives(nesting + 1));
    if (!at_.take(")")) return at_.fail("expected )");
    return inner;
  }

  Result<ExprId> quantified(ExprId atom) {
    uint32_t low = 0, high = kUnbounded;
    const Cursor start = at_;
    if (at_.take("*")) {
    } else if (at_.take("+")) {
      low = 1;
    } else if (at_.take("?")) {
      high = 1;
    } else if (at_.peek() == '{' && at_.peek(1) >= '0' && at_.peek(1) <= '9') {
      at_.skip(1);
      low = high = RK_TRY(at_.take_number(kMostRepeats));
      if (at_.take(","))
        high = at_.peek() == '}' ? kUnbounded : RK_TRY(at_.take_number(kMostRepeats));
      if (!at_.take("}")) return at_.fail("expected }");
      if (high < low)
        return start.fail("expected {low,high}", "more before the comma than after it");
    } else if (at_.starts("{,")) {
      return at_.fail("expected a number after { (or \\{)");
    } else {
      return atom;
    }
    if (at_.peek() == '+') return at_.fail(kRegular, "a possessive quantifier");
    at_.take("?");  // lazy: the same texts
    if (at_.peek() == '*' || at_.peek() == '+' || at_.peek() == '?' ||
        (at_.peek() == '{' && at_.peek(1) >= '0' && at_.peek(1) <= '9'))
      return at_.fail("expected one quantifier, not several (use a group)");
    return pool_.repeat(atom, low, high);
  }

  struct Escaped {
    CodePoints points;
    bool single = true;  // one character, which may begin a range
  };

  Result<Escaped> escaped(bool in_class) {
    const Cursor start = at_;
    at_.skip(1);
    if (at_.at_end()) return at_.fail("expected a character after a backslash");
    const auto one = [](uint32_t point) { return Escaped{CodePoints{{point, point}}, true}; };
    const char c = at_.peek();
    if (c >= '1' && c <= '9') return start.fail(kRegular, "a back-reference");
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '0';
    if (!letter) {
      if (static_cast<uint8_t>(c) >= 0x80)
        return at_.fail("expected an ASCII character after a backslash");
      at_.skip(1);
      return one(static_cast<uint32_t>(c));
    }
    at_.skip(1);
    switch (c) {
      case 'd': return Escaped{digits(), false};
      case 'D': return Escaped{digits().complement(), false};
      case 'w': return Escaped{word(), false};
      case 'W': return Escaped{word().complement(), false};
      case 's': return Escaped{white_space(), false};
      case 'S': return Escaped{white_space().complement(), false};
      case 't': return one('\t');
      case 'n': return one('\n');
      case 'r': return one('\r');
      case 'f': return one('\f');
      case 'v': return one('\v');
      case '0':
        if (at_.peek() >= '0' && at_.peek() <= '9') return start.fail(kRegular, "an octal escape");
        return one(0);
      case 'x': return one(RK_TRY(at_.take_hex(2)));
      case 'u': return one(RK_TRY(unicode()));
      case 'U': return one(RK_TRY(at_.take_hex(8)));
      case 'b':
        if (in_class) return one('\b');
        return start.fail(kRegular, "a word boundary (\\b)");
      case 'B': return start.fail(kRegular, "a word boundary (\\B)");
      case 'k': return start.fail(kRegular, "a back-reference");
      case 'p':
      case 'P': return start.fail("expected a class written out", "a Unicode property");
      default:
        return start.fail(
            "expected one of the escapes d D w W s S t n r f v 0 x u U or a "
            "punctuation mark",
            fmt::format("\\{}", c));
    }
  }

  // After \u: four digits, two surrogates as \uD83D\uDE00, or {digits}.
  Result<uint32_t> unicode() {
    if (at_.take("{")) {
      size_t size = 0;
      while (size < 7 && at_.peek(size) != '}' && size < at_.rest().size()) ++size;
      const uint32_t point = RK_TRY(at_.take_hex(size == 0 || size > 6 ? 6 : size));
      if (!at_.take("}")) return at_.fail("expected }");
      return point;
    }
    const std::string_view rest = at_.rest();
    const auto surrogate = [&](size_t from, char low, char high) {
      return rest.size() >= from + 4 && (rest[from] == 'd' || rest[from] == 'D') &&
             std::toupper(rest[from + 1]) >= low && std::toupper(rest[from + 1]) <= high;
    };
    if (surrogate(0, '8', 'B') && rest.substr(4, 2) == "\\u" && surrogate(6, 'C', 'F')) {
      const auto value = [&](size_t from) -> uint32_t {
        uint32_t out = 0;
        for (const char c : rest.substr(from, 4)) {
          if (!std::isxdigit(static_cast<unsigned char>(c))) return UINT32_MAX;
          out = out << 4 | static_cast<uint32_t>(c <= '9' ? c - '0' : std::toupper(c) - 'A' + 10);
        }
        return out;
      };
      const uint32_t high = value(0), low = value(6);
      if (high == UINT32_MAX || low == UINT32_MAX)
        return at_.fail("expected four hexadecimal digits");
      at_.skip(10);
      return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }
    return at_.take_hex(4);
  }

  Result<CodePoints> char_class() {
    const Cursor start = at_;
    at_.skip(1);
    const bool negated = at_.take("^");
    if (at_.peek() == ']') return at_.fail("expected \\] for a bracket at the front of a class");
    CodePoints points;
    while (!at_.take("]")) {
      if (at_.at_end()) return start.fail("expected ] at a class's end", "none");
      if (at_.starts("[:") || at_.starts("[=") || at_.starts("[."))
        return at_.fail("expected \\[ in a class (POSIX classes are not supported)");
      const Escaped first = RK_TRY(member());
      if (at_.peek() != '-' || at_.peek(1) == ']' || at_.peek(1) == '\0') {
        points.add(first.points);
        continue;
      }
      const Cursor dash = at_;
      at_.skip(1);
      const Escaped last = RK_TRY(member());
      if (!first.single || !last.single)
        return dash.fail("expected single characters at both ends of a range", "a class");
      const uint32_t from = first.points.ranges()[0].first, to = last.points.ranges()[0].first;
      if (to < from) return dash.fail("expected a range upwards", "one downwards");
      points.add(from, to);
    }
    points = negated ? points.complement() : points.normalised();
    if (points.empty())
      return start.fail("expected a class with a character in it", "an empty one");
    return points;
  }

  Result<Escaped> member() {
    if (at_.peek() == '\\') return escaped(true);
    const uint32_t point = RK_TRY(at_.take_point());
    return Escaped{CodePoints{{point, point}}, true};
  }

  static constexpr std::string_view kRegular = "expected a regular expression in the strict sense";

  ExprPool& pool_;
  Cursor at_;
  const RegexOptions& options_;
};

}  // namespace

Result<ExprId> regex(ExprPool& pool, std::string_view pattern, const RegexOptions& options) {
  if (pattern.size() > kMostPattern) {
    return make_error(ErrorKind::usage, "{}: expected at most {} bytes, found {}", options.name,
                      kMostPattern, pattern.size());
  }
  return Regex(pool, pattern, options).read();
}

Result<GrammarPtr> Grammar::from_regex(std::string_view pattern) {
  ExprPool pool;
  const ExprId root = RK_TRY(regex(pool, pattern, RegexOptions{}));
  return finish(std::move(pool), root);
}

}  // namespace ringkeep::grammar
