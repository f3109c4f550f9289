#include "grammar/json_blocks.h"

#include <algorithm>
#include <cctype>

#include "base/check.h"
#include "grammar/grammar_data.h"
#include "grammar/intersect.h"
#include "grammar/limits.h"
#include "grammar/regex.h"

namespace ringkeep::grammar {
namespace {

constexpr uint32_t kMostIndent = 64;    // spaces or tabs after a newline
constexpr uint32_t kMostDigits = 19;    // of an integer
constexpr uint32_t kMostFraction = 17;  // digits that tell doubles apart
constexpr uint32_t kMostExponent = 2;   // digits: 10^99 times 19 digits is a double still

ByteSet bytes(std::string_view members) {
  ByteSet set;
  for (const char c : members) set.set(static_cast<uint8_t>(c));
  return set;
}

ByteSet byte_range(char first, char last) {
  ByteSet set;
  for (int c = first; c <= last; ++c) set.set(static_cast<size_t>(c));
  return set;
}

const CodePoints& plain_points() {  // that JSON writes as they are
  static const CodePoints points = CodePoints{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}.complement();
  return points;
}

std::string escape(uint32_t point) {
  switch (point) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\b': return "\\b";
    case '\f': return "\\f";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: return fmt::format("\\u{:04x}", point);
  }
}

}  // namespace

JsonBlocks::JsonBlocks(ExprPool& pool, const Grammar::JsonOptions& options, StringNotation strings)
    : pool_(pool), strings_(std::move(strings)) {
  space_ =
      options.whitespace == Grammar::JsonOptions::Whitespace::compact
          ? kEmpty
          : pool.either({kEmpty, pool.literal(" "),
                         pool.concat(pool.literal("\n"),
                                     pool.repeat(pool.byte_set(bytes(" \t")), 0, kMostIndent))});
}

ExprId JsonBlocks::bracketed(char open, ExprId items, char close, bool may_be_none) {
  ExprId inner = pool_.concat(items, space_);
  if (may_be_none) inner = pool_.optional(inner);
  return pool_.sequence(
      {pool_.literal(std::string(1, open)), space_, inner, pool_.literal(std::string(1, close))});
}

ExprId JsonBlocks::mark() {
  return pool_.literal(strings_.control ? kControlMark + strings_.mark + kControlMark
                                        : strings_.mark);
}

ExprId JsonBlocks::character() {
  if (!strings_.escaped) return utf8(pool_, CodePoints::all());
  const auto digit = [&](std::string_view members) { return pool_.byte_set(bytes(members)); };
  const ExprId hex = digit("0123456789abcdefABCDEF");
  const ExprId backslash = pool_.literal("\\");
  // \u and four digits: not a surrogate, or a pair of them.
  const ExprId single =
      pool_.either({pool_.concat(digit("0123456789abcefABCEF"), pool_.repeat(hex, 3, 3)),
                    pool_.sequence({digit("dD"), digit("01234567"), pool_.repeat(hex, 2, 2)})});
  const ExprId pair =
      pool_.sequence({digit("dD"), digit("89abAB"), pool_.repeat(hex, 2, 2), pool_.literal("\\u"),
                      digit("dD"), digit("cdefCDEF"), pool_.repeat(hex, 2, 2)});
  const ExprId escaped = pool_.concat(
      backslash, pool_.either({pool_.byte_set(bytes("\"\\/bfnrt")),
                               pool_.concat(pool_.literal("u"), pool_.either({single, pair}))}));
  return pool_.either({utf8(pool_, plain_points()), escaped});
}

ExprId JsonBlocks::string() {
  if (!string_) {
    string_ = pool_.add_rule("json string");
    ExprId content = kNothing;
    if (strings_.without.empty()) {
      content = pool_.repeat(character(), 0, kUnbounded);
    } else {
      ExprPool own;
      const ExprId any =
          own.repeat(JsonBlocks(own, Grammar::JsonOptions{}, strings_).character(), 0, kUnbounded);
      uint64_t budget = kMostSchemaWork;
      content = intersect(pool_, {finish(std::move(own), any).value(), without(strings_.without)},
                          "grammar", budget)
                    .value();
    }
    pool_.mutable_rules()[*string_].body = quoted(content);
  }
  return pool_.call(*string_);
}

ExprId JsonBlocks::name() {
  return strings_.bare_names ? regex(pool_, kBareName, {}).value() : string();
}

Result<std::string> JsonBlocks::written(std::string_view text) const {
  const auto holds = [&](std::string_view part) {
    return !strings_.without.empty() && part.find(strings_.without) != part.npos;
  };
  std::string inside(text);
  if (strings_.escaped) {
    inside = spelled(text);
    inside = inside.substr(1, inside.size() - 2);
    if (holds(inside)) {  // JSON may write / as \/
      for (size_t at = 0; (at = inside.find('/', at)) != inside.npos; at += 2)
        inside.insert(at, "\\");
    }
  }
  if (holds(inside)) {
    return make_error(ErrorKind::usage, "expected texts without \"{}\", found one with it",
                      strings_.without);
  }
  const std::string control(strings_.control ? 1 : 0, kControlMark);
  const std::string mark = control + strings_.mark + control;
  return mark + inside + mark;
}

Result<std::string> JsonBlocks::written_name(std::string_view text) const {
  const bool bare = std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<uint8_t>(c)) != 0 || c == '_' || c == '.' || c == '-' ||
           c == '$' || static_cast<uint8_t>(c) >= 0x80;
  });
  if (strings_.bare_names && bare && !text.empty()) return std::string(text);
  return written(text);
}

ExprId JsonBlocks::integer() {
  const ExprId digit = pool_.byte_set(byte_range('0', '9'));
  const ExprId natural =
      pool_.concat(pool_.byte_set(byte_range('1', '9')), pool_.repeat(digit, 0, kMostDigits - 1));
  return pool_.either(
      {pool_.literal("0"), pool_.concat(pool_.optional(pool_.literal("-")), natural)});
}

ExprId JsonBlocks::number() {
  if (!number_) {
    number_ = pool_.add_rule("json number");
    const ExprId digit = pool_.byte_set(byte_range('0', '9'));
    const ExprId whole =
        pool_.either({pool_.literal("0"), pool_.concat(pool_.byte_set(byte_range('1', '9')),
                                                       pool_.repeat(digit, 0, kMostDigits - 1))});
    const ExprId fraction = pool_.concat(pool_.literal("."), pool_.repeat(digit, 1, kMostFraction));
    const ExprId exponent =
        pool_.sequence({pool_.byte_set(bytes("eE")), pool_.optional(pool_.byte_set(bytes("+-"))),
                        pool_.repeat(digit, 1, kMostExponent)});
    const ExprId body = pool_.sequence({pool_.optional(pool_.literal("-")), whole,
                                        pool_.optional(fraction), pool_.optional(exponent)});
    pool_.mutable_rules()[*number_].body = body;
  }
  return pool_.call(*number_);
}

ExprId JsonBlocks::boolean() {
  return pool_.either({pool_.literal("true"), pool_.literal("false")});
}

ExprId JsonBlocks::value() {
  if (!value_) {
    value_ = pool_.add_rule("json value");
    const ExprId body = pool_.either({object(), array(), string(), number(), boolean(), null()});
    pool_.mutable_rules()[*value_].body = body;
  }
  return pool_.call(*value_);
}

ExprId JsonBlocks::object() {
  const ExprId member = pool_.sequence({name(), colon(), value()});
  const ExprId more = pool_.repeat(pool_.concat(comma(), member), 0, kUnbounded);
  return bracketed('{', pool_.concat(member, more), '}', true);
}

ExprId JsonBlocks::array() {
  const ExprId more = pool_.repeat(pool_.concat(comma(), value()), 0, kUnbounded);
  return bracketed('[', pool_.concat(value(), more), ']', true);
}

ExprId spelled(ExprPool& pool, const CodePoints& points) {
  std::vector<ExprId> alternatives;
  const CodePoints rest = points.without(plain_points());
  for (const CodePoints::Range& range : rest.ranges())
    for (uint32_t point = range.first; point <= range.last; ++point)
      alternatives.push_back(pool.literal(escape(point)));
  const CodePoints plain = points.without(rest);
  if (!plain.empty()) alternatives.push_back(utf8(pool, plain));
  return pool.either(alternatives);
}

std::string spelled(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::optional<uint32_t> point = take_code_point(text);
    RK_CHECK(point.has_value(), "a string that is not UTF-8");
    out += plain_points().contains(*point) ? utf8(*point) : escape(*point);
  }
  return out + '"';
}

namespace {

GrammarPtr build(const Grammar::JsonOptions& options, ExprId (JsonBlocks::*part)()) {
  ExprPool pool;
  JsonBlocks blocks(pool, options);
  const ExprId root = (blocks.*part)();
  return finish(std::move(pool), root).value();
}

}  // namespace

GrammarPtr Grammar::any_json(const JsonOptions& options) {
  return build(options, &JsonBlocks::value);
}
GrammarPtr Grammar::json_object(const JsonOptions& options) {
  return build(options, &JsonBlocks::object);
}

}  // namespace ringkeep::grammar
