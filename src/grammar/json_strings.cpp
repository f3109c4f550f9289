// Strings of a JSON schema: lengths, patterns, formats, and sets of texts.
#include <algorithm>
#include <map>

#include "grammar/grammar_data.h"
#include "grammar/intersect.h"
#include "grammar/json_schema.h"
#include "grammar/limits.h"
#include "grammar/regex.h"

namespace ringkeep::grammar {
namespace {

// RFC 3339; February has its 29th day in leap years only. No leap seconds, no year 0.
const char kDate[] =
    "(?:(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)-"
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|"
    "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|"
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|"
    "(?:0[48]|[2468][048]|[13579][26])00)-02-29)";
const char kTime[] =
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?"
    "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
// RFC 3339, appendix A.
const char kDuration[] =
    "P(?:[0-9]{1,9}W|(?:[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?|[0-9]{1,9}M(?:[0-9]{1,9}D)?|"
    "[0-9]{1,9}D)(?:T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|"
    "[0-9]{1,9}S))?|T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|"
    "[0-9]{1,9}S))";
const char kByte[] = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
// A part of what RFC 1123 allows: eight labels of 30 characters.
const char kLabel[] = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,28}[A-Za-z0-9])?";

std::string format_pattern(const std::string& name) {
  const std::string ipv4 = fmt::format("(?:{}\\.){{3}}{}", kByte, kByte);
  const std::string host = fmt::format("{}(?:\\.{}){{0,7}}", kLabel, kLabel);
  if (name == "date") return kDate;
  if (name == "time") return kTime;
  if (name == "date-time") return std::string(kDate) + "T" + kTime;
  if (name == "duration") return kDuration;
  if (name == "uuid")
    return "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";
  if (name == "ipv4") return ipv4;
  if (name == "ipv6") {  // RFC 4291, 2.2: eight groups, one run of which may be ::
    const std::string h = "[0-9a-fA-F]{1,4}";
    std::string all =
        fmt::format("(?:{}:){{7}}{}|::|(?:{}:){{1,7}}:|::(?:{}:){{0,6}}{}", h, h, h, h, h);
    for (int before = 1; before <= 6; ++before)
      all += fmt::format("|(?:{}:){{{}}}(?::{}){{1,{}}}", h, before, h, 7 - before);
    return "(?:" + all + ")";
  }
  if (name == "hostname") return host;
  if (name == "email") {  // RFC 5321's dot-string
    const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,32}";
    return fmt::format("{}(?:\\.{}){{0,1}}@{}", atom, atom, host);
  }
  if (name == "uri") {  // RFC 3986 with an authority
    const std::string p = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
    return fmt::format(
        "[A-Za-z][A-Za-z0-9+.-]{{0,30}}://(?:{}|{})(?::[0-9]{{1,5}})?(?:/{}*)*"
        "(?:\\?(?:{}|[/?])*)?(?:#(?:{}|[/?])*)?",
        host, ipv4, p, p, p);
  }
  return "";
}

// Formats that say how to read a text, not which texts are valid (OpenAPI).
bool says_nothing(const std::string& name) {
  return name == "password" || name == "binary" || name == "byte" || name == "float" ||
         name == "double" || name == "int32" || name == "int64";
}

}  // namespace

bool known_format(const std::string& name) {
  return says_nothing(name) || !format_pattern(name).empty();
}

Result<ExprId> string_content(ExprPool& pool, const StringLimits& limits,
                              const StringNotation& notation, const GrammarPtr& also,
                              uint64_t& budget) {
  const auto write = [&](ExprPool& own, const CodePoints& points) {
    return notation.escaped ? spelled(own, points) : utf8(own, points);
  };
  std::vector<GrammarPtr> parts;
  const auto add = [&](std::string_view pattern, const std::string& place, bool search) -> Status {
    ExprPool own;
    const ExprId root =
        RK_TRY(regex(own, pattern, {.name = place, .search = search, .write = write}));
    parts.push_back(RK_TRY(finish(std::move(own), root)));
    return {};
  };
  for (const auto& [pattern, pointer] : limits.patterns)
    RK_TRY(add(pattern, "json schema: at " + pointer, true));
  for (const auto& [name, pointer] : limits.formats) {
    if (says_nothing(name)) continue;
    RK_TRY(add(format_pattern(name), "json schema: at " + pointer, false));
  }
  const std::string& pointer = !limits.patterns.empty()  ? limits.patterns[0].second
                               : !limits.formats.empty() ? limits.formats[0].second
                                                         : limits.pointer;
  const std::string place = "json schema: at " + (pointer.empty() ? "the root" : pointer);
  if (parts.empty() && also == nullptr && !notation.escaped && !notation.without.empty()) {
    ExprPool own;
    const ExprId any = own.repeat(utf8(own, CodePoints::all()), 0, kUnbounded);
    parts = {RK_TRY(finish(std::move(own), any)), without(notation.without)};
    const Expr text = pool[RK_TRY(intersect(pool, parts, place, budget))];
    return pool.dfa_state(text.a, text.b, limits.min_length, limits.max_length);
  }
  if (limits.min_length > 0 || limits.max_length != UINT32_MAX || parts.empty()) {
    ExprPool own;
    const ExprId one = parts.empty() && also == nullptr
                           ? JsonBlocks(own, Grammar::JsonOptions{}, notation).character()
                           : write(own, CodePoints::all());
    const ExprId root = own.repeat(
        one, limits.min_length, limits.max_length == UINT32_MAX ? kUnbounded : limits.max_length);
    parts.push_back(RK_TRY(finish(std::move(own), root)));
  }
  if (!notation.without.empty()) parts.push_back(without(notation.without));
  if (also != nullptr) parts.push_back(also);
  if (parts.size() == 1) return import(pool, *parts[0]);
  return intersect(pool, parts, place, budget);
}

namespace {

ExprId one_of_sorted(ExprPool& pool, std::span<const std::string> texts, size_t from) {
  std::vector<ExprId> all;
  while (!texts.empty()) {
    if (texts[0].size() == from) {
      all.push_back(kEmpty);
      texts = texts.subspan(1);
      continue;
    }
    size_t same = 1;
    while (same < texts.size() && texts[same][from] == texts[0][from]) ++same;
    // Sorted: what the first and the last share, all share.
    size_t to = from + 1;
    const std::string &first = texts[0], &last = texts[same - 1];
    while (to < first.size() && to < last.size() && first[to] == last[to]) ++to;
    all.push_back(pool.concat(pool.literal(std::string_view(first).substr(from, to - from)),
                              one_of_sorted(pool, texts.first(same), to)));
    texts = texts.subspan(same);
  }
  return pool.either(all);
}

}  // namespace

ExprId one_of(ExprPool& pool, std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return one_of_sorted(pool, texts, 0);
}

namespace {

// What may follow once the characters so far are a beginning of these names.
ExprId other_ending(ExprPool& pool, std::span<const std::u32string> names, size_t from,
                    ExprId any_ending) {
  std::vector<ExprId> all;
  CodePoints taken;
  bool is_name = false;
  while (!names.empty()) {
    if (names[0].size() == from) {
      is_name = true;
      names = names.subspan(1);
      continue;
    }
    size_t same = 1;
    while (same < names.size() && names[same][from] == names[0][from]) ++same;
    const auto point = static_cast<uint32_t>(names[0][from]);
    taken.add(point, point);
    all.push_back(pool.concat(spelled(pool, CodePoints{{point, point}}),
                              other_ending(pool, names.first(same), from + 1, any_ending)));
    names = names.subspan(same);
  }
  all.push_back(pool.concat(spelled(pool, taken.complement()), any_ending));
  if (!is_name) all.push_back(pool.literal("\""));
  return pool.either(all);
}

}  // namespace

ExprId other_string(ExprPool& pool, const std::vector<std::string>& names) {
  std::vector<std::u32string> points;
  for (std::string_view name : names) {
    std::u32string& out = points.emplace_back();
    while (!name.empty()) out += static_cast<char32_t>(*take_code_point(name));
  }
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  const ExprId quote = pool.literal("\"");
  const ExprId any_ending =
      pool.concat(pool.repeat(spelled(pool, CodePoints::all()), 0, kUnbounded), quote);
  return pool.concat(quote, other_ending(pool, points, 0, any_ending));
}

}  // namespace ringkeep::grammar
