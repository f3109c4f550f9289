#include "grammar/tool_arguments.h"

#include <algorithm>

#include "grammar/grammar_data.h"
#include "grammar/intersect.h"
#include "grammar/json_schema.h"
#include "grammar/limits.h"
#include "text/utf8.h"

namespace ringkeep::grammar {
namespace {

constexpr size_t kMostName = 1'000;  // bytes of a parameter's name

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::string trimmed(std::string text) {
  while (!text.empty() && is_space(text.back())) text.pop_back();
  while (!text.empty() && is_space(text.front())) text.erase(0, 1);
  return text;
}

Status check_mark(std::string_view mark, std::string_view what) {
  if (!mark.empty() && mark.size() <= kMostMark && text::utf8_valid_prefix(mark) == mark.size())
    return {};
  return make_error(ErrorKind::usage,
                    "tool arguments: expected a {} of at most {} bytes of UTF-8, found {} bytes",
                    what, kMostMark, mark.size());
}

// Strings of a parameter's value, which the mark behind it ends.
StringNotation bare_strings(const StringNotation& json) {
  return {.mark = "", .escaped = false, .without = json.without};
}

}  // namespace

Result<ExprId> SchemaCompiler::compile_arguments(const ArgumentFormat& format) {
  std::vector<ExprId> all;
  for (Keywords& keywords : RK_TRY(combinations({{&root_, ""}}))) {
    keywords.types &= kTypeObject;
    all.push_back(format.kind == ArgumentFormat::Kind::xml
                      ? RK_TRY(parameters(keywords, format))
                      : RK_TRY(without_alternatives(keywords)));
  }
  RK_TRY(finish_rules());
  return pool_.either(all);
}

Result<ExprId> SchemaCompiler::parameters(const Keywords& keywords, const ArgumentFormat& format) {
  if (keywords.values)
    return schema_error(keywords.pointer, "no enum or const of all arguments together", "one");
  const std::optional<Members> members = RK_TRY(members_of(keywords));
  if (keywords.types == 0 || !members) return kNothing;
  const ExprId begin = pool_.literal(format.parameter_begin);
  const ExprId name_end = pool_.literal(format.parameter_name_end);
  const ExprId end = pool_.literal(format.parameter_end);
  std::vector<std::string> names;
  std::vector<ExprId> parts;
  for (size_t i = 0; i < members->named.size(); ++i) {
    const auto& [name, schemas] = members->named[i];
    if (name.empty() || name.size() > kMostName || name != trimmed(name) ||
        name.find_first_of("<>\n") != name.npos || text::utf8_valid_prefix(name) != name.size()) {
      return schema_error(keywords.pointer,
                          fmt::format("names of parameters of 1 to {} bytes without <, > and line "
                                      "breaks, and without white space around them",
                                      kMostName),
                          brief(name));
    }
    names.push_back(name);
    const ExprId part = pool_.sequence(
        {begin, pool_.literal(name), name_end, RK_TRY(parameter_value(schemas)), end});
    parts.push_back(members->required[i] ? part : pool_.optional(part));
  }
  if (members->more) {
    const ExprId name = RK_TRY(other_name(names, /*bare=*/true));
    const ExprId part = pool_.sequence(
        {begin, name, name_end, RK_TRY(parameter_value(keywords.additional_as)), end});
    parts.push_back(pool_.repeat(part, 0, kUnbounded));
  }
  return pool_.sequence(parts);
}

Result<ExprId> SchemaCompiler::parameter_value(const Conjunction& schemas) {
  const StringNotation bare = bare_strings(blocks_.strings());
  if (schemas.empty()) return content({}, bare, nullptr);  // of a parameter that has no schema
  std::vector<Keywords> alternatives = RK_TRY(combinations(schemas));
  uint8_t types = 0;
  for (Keywords& keywords : alternatives) {
    if (keywords.values) {
      uint8_t of_values = 0;
      for (const Json& value : *keywords.values) of_values |= json_type(value);
      keywords.types &= of_values;
    }
    types |= keywords.types;
  }
  const GrammarPtr also = unlike(types);
  std::vector<ExprId> all;
  for (Keywords& keywords : alternatives) {
    const bool has_string = (keywords.types & kTypeString) != 0;
    if (has_string && keywords.values) {
      const std::vector<std::string> texts = RK_TRY(enumerated_strings(keywords, also));
      for (const std::string& text : texts)
        if (text.find(bare.without) != text.npos)
          return schema_error(keywords.pointer, "values without " + bare.without, "one with it");
      all.push_back(one_of(pool_, texts));
    } else if (has_string && keywords.min_length <= keywords.max_length) {
      all.push_back(RK_TRY(content(keywords, bare, also)));
    }
    // What may be anything is read as a string, unless it is an object or an array.
    constexpr uint8_t kStructured = kTypeArray | kTypeObject, kOther = kTypeAny - kTypeString;
    keywords.types &= types == kTypeAny ? kStructured : kOther;
    if (keywords.types != 0) all.push_back(RK_TRY(without_alternatives(keywords)));
  }
  return pool_.either(all);
}

// Texts that are read as strings where a value may be of these types; null: all of them.
GrammarPtr SchemaCompiler::unlike(uint8_t types) {
  if ((types & kTypeString) == 0 || types == kTypeString) return nullptr;
  GrammarPtr& known = unlike_[types];
  if (known != nullptr) return known;
  std::vector<std::string> like;
  const std::string space = "[ \\t\\r\\n]*";
  const auto add = [&](const char* text) { like.push_back(space + text + space); };
  if ((types & kTypeNull) != 0) add("(?:null|None)");
  if ((types & kTypeBoolean) != 0) add("(?:true|false|True|False)");
  if ((types & (kTypeInteger | kTypeNumber)) != 0)
    add("-?[0-9]+(?:\\.[0-9]+)?(?:[eE][+\\-]?[0-9]+)?");
  if ((types & kTypeObject) != 0) like.push_back(space + "\\{[\\s\\S]*");
  if ((types & kTypeArray) != 0) like.push_back(space + "\\[[\\s\\S]*");
  std::string pattern;
  for (const std::string& one : like) pattern += (pattern.empty() ? "" : "|") + one;
  known = complement(Grammar::from_regex(pattern).value()).value();
  return known;
}

Result<GrammarPtr> tool_arguments(const nlohmann::ordered_json& parameters,
                                  const ArgumentFormat& format,
                                  const Grammar::JsonOptions& options) {
  using Kind = ArgumentFormat::Kind;
  static const Json kAny = {{"type", "object"}};
  const bool any = parameters.is_null() || (parameters.is_object() && parameters.empty());
  const Json& schema = any ? kAny : parameters;
  RK_TRY(check_depth(schema));
  Grammar::JsonOptions written = options;
  StringNotation strings;
  if (format.kind == Kind::marked) {
    RK_TRY(check_mark(format.string_mark, "mark of strings"));
    strings = {.mark = format.string_mark,
               .control = format.mark_control,
               .escaped = false,
               .bare_names = true,
               .without = format.string_mark};
    written.whitespace = Grammar::JsonOptions::Whitespace::compact;
  } else if (format.kind == Kind::xml) {
    strings.without = trimmed(format.parameter_end);
    RK_TRY(check_mark(strings.without, "mark behind a parameter"));
  }
  ExprPool pool;
  const ExprId root =
      RK_TRY(SchemaCompiler(pool, schema, written, strings).compile_arguments(format));
  auto grammar = finish(std::move(pool), root);
  if (!grammar) return make_error(ErrorKind::usage, "json schema: {}", grammar.error().message);
  return grammar;
}

}  // namespace ringkeep::grammar
