// JSON Schema, draft 2020-12. Source: json-schema.org/draft/2020-12.
#include "grammar/json_schema.h"

#include <algorithm>

#include "base/check.h"
#include "grammar/automaton.h"
#include "grammar/grammar_data.h"
#include "grammar/intersect.h"
#include "grammar/limits.h"
#include "text/utf8.h"

namespace ringkeep::grammar {
namespace {

constexpr size_t kMostCombinations = 256;  // of the alternatives of several anyOf
constexpr int kMostJsonNesting = 200;
constexpr size_t kMostMembers = 5'000;   // of one JSON object
constexpr uint32_t kMostMultiple = 500;  // times the digits of a number: within kMostDfaStates

// Refuses what would take long to read: an ordered object looks through its keys one by one.
class Limits : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return open(); }
  bool key(string_t&) override {
    if (++members_.back() > kMostMembers) {
      error = fmt::format("expected at most {} members in an object, found more", kMostMembers);
      return false;
    }
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& problem) override {
    error = fmt::format("expected JSON, found an error at byte {} ({})", position, problem.what());
    return false;
  }
  std::string error;

 private:
  bool open() {
    members_.push_back(0);
    if (members_.size() <= kMostJsonNesting) return true;
    error = fmt::format("expected at most {} levels, found more", kMostJsonNesting);
    return false;
  }
  bool close() {
    members_.pop_back();
    return true;
  }
  std::vector<size_t> members_;
};

int depth_of(const Json& root) {
  int deepest = 0;
  std::vector<std::pair<const Json*, int>> todo = {{&root, 0}};
  while (!todo.empty()) {
    const auto [value, depth] = todo.back();
    todo.pop_back();
    deepest = std::max(deepest, depth);
    if (value->is_structured() && depth <= kMostJsonNesting)
      for (const Json& child : *value) todo.emplace_back(&child, depth + 1);
  }
  return deepest;
}

bool is_whole(const Json& number) {
  const auto value = decimal(number);
  return value && value->fraction.empty();
}

}  // namespace

uint8_t json_type(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return kTypeNull;
    case Json::value_t::boolean: return kTypeBoolean;
    case Json::value_t::string: return kTypeString;
    case Json::value_t::array: return kTypeArray;
    case Json::value_t::object: return kTypeObject;
    default: return is_whole(value) ? kTypeInteger : kTypeNumber;
  }
}

Status check_depth(const Json& document) {
  if (depth_of(document) <= kMostJsonNesting) return {};
  return make_error(ErrorKind::usage, "json schema: expected at most {} levels, found more",
                    kMostJsonNesting);
}

namespace {

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

// Whether the automaton reads the whole text; none where the budget does not last.
std::optional<bool> judge(Automaton& automaton, std::string_view text, uint64_t& budget) {
  StateId state = automaton.start();
  for (const char c : text) {
    const uint64_t before = automaton.work();
    state = automaton.step(state, static_cast<uint8_t>(c));
    budget -= std::min(budget, automaton.work() - before + 1);
    if (budget == 0 || automaton.overfull()) return std::nullopt;
    if (state == kDead) return false;
  }
  return automaton.accepting(state);
}

// Multiples of a whole number, as integers are written.
GrammarPtr multiples(uint32_t of) {
  Dfa dfa;
  for (size_t byte = 0; byte < 256; ++byte) dfa.byte_class[byte] = 11;
  for (uint8_t digit = 0; digit < 10; ++digit) dfa.byte_class['0' + digit] = digit;
  dfa.byte_class['-'] = 10;
  dfa.classes = 12;
  dfa.accepting.assign(of + 2, false);  // remainders, the start, after the sign
  dfa.accepting[0] = true;
  dfa.start = of;
  dfa.next.assign(size_t{of + 2} * dfa.classes, Dfa::kDead);
  for (uint32_t state = 0; state < of + 2; ++state) {
    const uint32_t remainder = state < of ? state : 0;
    for (uint32_t digit = 0; digit < 10; ++digit)
      dfa.next[size_t{state} * dfa.classes + digit] = (remainder * 10 + digit) % of;
  }
  dfa.next[size_t{of} * dfa.classes + 10] = of + 1;
  ExprPool pool;
  const ExprId root = pool.add_dfa(std::move(dfa));
  return finish(std::move(pool), root).value();
}

}  // namespace

Result<ExprId> SchemaCompiler::compile() {
  const ExprId root = RK_TRY(value_of({{&root_, ""}}));
  RK_TRY(finish_rules());
  return root;
}

Status SchemaCompiler::finish_rules() {
  while (!open_.empty()) {
    const Open next = std::move(open_.back());
    open_.pop_back();
    const ExprId body = RK_TRY(this->body(next.schemas));
    pool_.mutable_rules()[next.rule].body = body;
    RK_TRY(check_size(pool_));
  }
  return {};
}

Result<ExprId> SchemaCompiler::value_of(const Conjunction& schemas) {
  Conjunction all;
  std::vector<const Json*> key;
  for (const Place& place : schemas) {
    const Place target = RK_TRY(document_.target(place));
    const bool anything =
        *target.schema == true || (target.schema->is_object() && target.schema->empty());
    if (anything || std::find(key.begin(), key.end(), target.schema) != key.end()) continue;
    key.push_back(target.schema);
    all.push_back(target);
  }
  if (all.empty()) return blocks_.value();
  std::sort(key.begin(), key.end());
  const auto [at, fresh] = rules_.emplace(std::move(key), 0);
  if (fresh) {
    at->second = pool_.add_rule(all[0].pointer.empty() ? "the root" : all[0].pointer);
    open_.push_back({at->second, std::move(all)});
  }
  return pool_.call(at->second);
}

Result<ExprId> SchemaCompiler::body(const Conjunction& schemas) {
  // Alternatives and nothing beside them keep rules of their own.
  if (schemas.size() == 1 && schemas[0].schema->is_object()) {
    const Json* list = nullptr;
    std::string pointer;
    bool alone = true;
    for (const auto& [key, value] : schemas[0].schema->items()) {
      if ((key == "anyOf" || key == "oneOf") && list == nullptr && value.is_array()) {
        list = &value;
        pointer = schemas[0].pointer + '/' + key + '/';
      } else if (!is_annotation(key)) {
        alone = false;
      }
    }
    if (list != nullptr && alone && !list->empty()) {
      std::vector<ExprId> all;
      for (size_t i = 0; i < list->size(); ++i)
        all.push_back(RK_TRY(value_of({{&(*list)[i], pointer + std::to_string(i)}})));
      return pool_.either(all);
    }
  }
  std::vector<ExprId> all;
  for (const Keywords& keywords : RK_TRY(combinations(schemas)))
    all.push_back(RK_TRY(without_alternatives(keywords)));
  return pool_.either(all);
}

// Each of the alternatives of all anyOf brought together with what stands beside them.
Result<std::vector<Keywords>> SchemaCompiler::combinations(const Conjunction& schemas) const {
  Keywords first;
  for (const Place& place : schemas) RK_TRY(document_.add(place, first));
  std::vector<Keywords> open = {std::move(first)}, all;
  for (size_t made = 1; !open.empty();) {
    Keywords keywords = std::move(open.back());
    open.pop_back();
    if (keywords.never) continue;
    if (keywords.any_of.empty()) {
      all.push_back(std::move(keywords));
      continue;
    }
    const std::vector<Place> group = std::move(keywords.any_of.back());
    keywords.any_of.pop_back();
    made += group.size();
    if (made > kMostCombinations)
      return schema_error(keywords.pointer,
                          fmt::format("at most {} combinations of anyOf, oneOf and what is beside "
                                      "them",
                                      kMostCombinations),
                          "more");
    for (const Place& branch : group) {
      Keywords with = keywords;
      RK_TRY(document_.add(branch, with));
      open.push_back(std::move(with));
    }
  }
  return all;
}

Result<ExprId> SchemaCompiler::without_alternatives(const Keywords& keywords) {
  if (keywords.values) return enumerated(keywords);
  std::vector<ExprId> all;
  if ((keywords.types & kTypeNull) != 0) all.push_back(blocks_.null());
  if ((keywords.types & kTypeBoolean) != 0) all.push_back(blocks_.boolean());
  if ((keywords.types & (kTypeInteger | kTypeNumber)) != 0) all.push_back(RK_TRY(number(keywords)));
  if ((keywords.types & kTypeString) != 0) all.push_back(RK_TRY(string(keywords)));
  if ((keywords.types & kTypeArray) != 0) all.push_back(RK_TRY(array(keywords)));
  if ((keywords.types & kTypeObject) != 0) all.push_back(RK_TRY(object(keywords)));
  return pool_.either(all);
}

Result<ExprId> SchemaCompiler::enumerated(const Keywords& keywords) {
  std::vector<std::string> texts;
  std::vector<ExprId> all;
  if ((keywords.types & kTypeString) != 0) {
    for (const std::string& text : RK_TRY(enumerated_strings(keywords, nullptr)))
      texts.push_back(RK_TRY(written(text, keywords.pointer, /*name=*/false)));
  }
  for (const Json& value : *keywords.values) {
    if ((keywords.types & json_type(value)) == 0 || value.is_string()) continue;
    if (value.is_structured()) {
      const bool judged =
          value.is_object() ? keywords.has_object_keywords() : keywords.has_array_keywords();
      if (judged)
        return schema_error(keywords.pointer,
                            "no further keywords beside an enum of objects or "
                            "arrays",
                            "some");
      all.push_back(RK_TRY(constant(value, keywords.pointer)));
      continue;
    }
    if (value.is_number()) {
      const auto number = decimal(value);
      if (!number)
        return schema_error(keywords.pointer, "numbers of an ordinary size", value.dump());
      if (!keywords.multiples.empty())
        return schema_error(keywords.multiples[0].second, "no multipleOf beside an enum", "one");
      const auto fails = [&](const std::optional<Bound>& bound, int sign) {
        if (!bound) return false;
        const int order = compare(*number, bound->at) * sign;
        return order < 0 || (order == 0 && bound->exclusive);
      };
      if (fails(keywords.low, 1) || fails(keywords.high, -1)) continue;
    }
    texts.push_back(value.dump());
  }
  all.push_back(one_of(pool_, std::move(texts)));
  return pool_.either(all);
}

Result<std::vector<std::string>> SchemaCompiler::enumerated_strings(const Keywords& keywords,
                                                                    const GrammarPtr& also) {
  std::vector<std::string> out;
  std::optional<Automaton> content;  // what they must be, as they are
  if (!keywords.patterns.empty() || !keywords.formats.empty() || also != nullptr) {
    ExprPool pool;
    const ExprId root = RK_TRY(string_content(
        pool,
        {.patterns = keywords.patterns, .formats = keywords.formats, .pointer = keywords.pointer},
        {.mark = "", .escaped = false}, also, budget_));
    if (root == kNothing) return out;
    content.emplace(RK_TRY(finish(std::move(pool), root)));
  }
  for (const Json& value : *keywords.values) {
    if (!value.is_string()) continue;
    const auto& text = value.get_ref<const std::string&>();
    if (text::utf8_valid_prefix(text) != text.size())
      return schema_error(keywords.pointer, "UTF-8 strings", "other bytes");
    const size_t length = characters(text);
    if (length < keywords.min_length || length > keywords.max_length) continue;
    if (content) {
      const auto matches = judge(*content, text, budget_);
      if (!matches)
        return schema_error(keywords.pointer, "fewer or simpler values beside a pattern", "more");
      if (!*matches) continue;
    }
    out.push_back(text);
  }
  return out;
}

Result<std::string> SchemaCompiler::written(std::string_view text, const std::string& pointer,
                                            bool name) const {
  if (text::utf8_valid_prefix(text) != text.size())
    return schema_error(pointer, name ? "UTF-8 names" : "UTF-8 strings", "other bytes");
  auto out = name ? blocks_.written_name(text) : blocks_.written(text);
  if (out) return out;
  return make_error(ErrorKind::usage, "json schema: at {}: {}",
                    pointer.empty() ? "the root" : pointer, out.error().message);
}

Result<ExprId> SchemaCompiler::constant(const Json& value, const std::string& pointer) {
  if (!value.is_structured()) {
    if (!value.is_string()) return pool_.literal(value.dump());
    return pool_.literal(
        RK_TRY(written(value.get_ref<const std::string&>(), pointer, /*name=*/false)));
  }
  std::vector<ExprId> parts;
  for (const auto& [key, item] : value.items()) {
    if (!parts.empty()) parts.push_back(blocks_.comma());
    if (value.is_object()) {
      parts.push_back(pool_.literal(RK_TRY(written(key, pointer, /*name=*/true))));
      parts.push_back(blocks_.colon());
    }
    parts.push_back(RK_TRY(constant(item, pointer)));
  }
  const ExprId items = parts.empty() ? kNothing : pool_.sequence(parts);
  return value.is_object() ? blocks_.bracketed('{', items, '}', parts.empty())
                           : blocks_.bracketed('[', items, ']', parts.empty());
}

Result<ExprId> SchemaCompiler::number(const Keywords& keywords) {
  const bool whole = (keywords.types & kTypeNumber) == 0;
  if (keywords.multiples.empty()) {
    if (whole) {
      return keywords.low || keywords.high ? integers(pool_, keywords.low, keywords.high)
                                           : blocks_.integer();
    }
    return keywords.low || keywords.high ? numbers(pool_, keywords.low, keywords.high)
                                         : blocks_.number();
  }
  ExprPool range;
  const ExprId root = integers(range, keywords.low, keywords.high);
  if (root == kNothing) return kNothing;
  std::vector<GrammarPtr> parts = {RK_TRY(finish(std::move(range), root))};
  for (const auto& [of, pointer] : keywords.multiples) {
    if (!of.fraction.empty() || of.whole.size() > 4 || std::stoul(of.whole) > kMostMultiple)
      return schema_error(pointer, fmt::format("a whole number up to {}", kMostMultiple),
                          of.text());
    parts.push_back(multiples(static_cast<uint32_t>(std::stoul(of.whole))));
  }
  return intersect(pool_, parts, "json schema: at " + keywords.multiples[0].second, budget_);
}

Result<ExprId> SchemaCompiler::string(const Keywords& keywords) {
  if (keywords.min_length > keywords.max_length) return kNothing;
  const bool whatever = keywords.min_length == 0 && keywords.max_length == UINT32_MAX;
  const bool plain = keywords.patterns.empty() && keywords.formats.empty();
  if (plain && (whatever || blocks_.strings().without.empty())) {
    if (whatever) return blocks_.string();
    const ExprId content =
        pool_.repeat(blocks_.character(), keywords.min_length,
                     keywords.max_length == UINT32_MAX ? kUnbounded : keywords.max_length);
    return blocks_.quoted(content);
  }
  return blocks_.quoted(RK_TRY(content(keywords, blocks_.strings(), nullptr)));
}

Result<ExprId> SchemaCompiler::content(const Keywords& keywords, const StringNotation& notation,
                                       const GrammarPtr& also) {
  std::string key =
      fmt::format("{} {} {} {}", notation.escaped, static_cast<const void*>(also.get()),
                  keywords.min_length, keywords.max_length);
  for (const auto& [pattern, pointer] : keywords.patterns)
    key += fmt::format(" p{} {}", pattern.size(), pattern);
  for (const auto& [format, pointer] : keywords.formats) key += " f" + format;
  const auto known = string_rules_.find(key);
  if (known != string_rules_.end()) return known->second;
  if (string_rules_.size() >= kMostStringRules)
    return schema_error(keywords.pointer,
                        fmt::format("at most {} different patterns and formats", kMostStringRules),
                        "one more");
  const ExprId made = RK_TRY(string_content(pool_,
                                            {keywords.min_length, keywords.max_length,
                                             keywords.patterns, keywords.formats, keywords.pointer},
                                            notation, also, budget_));
  string_rules_.emplace(std::move(key), made);
  return made;
}

Result<ExprId> SchemaCompiler::array(const Keywords& keywords) {
  uint32_t most = keywords.max_items;
  const auto places = static_cast<uint32_t>(keywords.prefix.size());
  if (!keywords.more_items) most = std::min(most, places);
  const uint32_t least = keywords.min_items;
  if (least > most) return kNothing;
  if (most == 0) return blocks_.bracketed('[', kNothing, ']', true);

  // From the right: what may follow once i items are written.
  ExprId rest = kEmpty;
  if (most > places) {
    const ExprId item = pool_.concat(blocks_.comma(), RK_TRY(value_of(keywords.items)));
    rest = pool_.repeat(item, least > places ? least - places : 0,
                        most == UINT32_MAX ? kUnbounded : most - places);
  }
  for (uint32_t i = std::min(places, most); i-- > 1;) {
    rest = pool_.sequence({blocks_.comma(), RK_TRY(value_of(keywords.prefix[i])), rest});
    if (i >= least) rest = pool_.optional(rest);
  }
  ExprId items;
  if (places > 0) {
    items = pool_.concat(RK_TRY(value_of(keywords.prefix[0])), rest);
  } else {  // no comma before the first
    const ExprId item = RK_TRY(value_of(keywords.items));
    items = pool_.concat(
        item, pool_.repeat(pool_.concat(blocks_.comma(), item), least > 0 ? least - 1 : 0,
                           most == UINT32_MAX ? kUnbounded : most - 1));
  }
  return blocks_.bracketed('[', items, ']', least == 0);
}

Result<std::optional<SchemaCompiler::Members>> SchemaCompiler::members_of(
    const Keywords& keywords) const {
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < keywords.properties.size(); ++i) index[keywords.properties[i].first] = i;
  const bool may_have_more = keywords.additional;
  const bool offers_more =
      may_have_more && (keywords.additional_named || !keywords.names_properties);
  Members out{.named = keywords.properties,
              .required = std::vector<bool>(keywords.properties.size(), false),
              .more = offers_more};
  for (const std::string& name : keywords.required) {
    const auto found = index.find(name);
    if (found != index.end()) {
      out.required[found->second] = true;
    } else if (may_have_more && !keywords.forbidden.contains(name)) {
      out.named.emplace_back(name, keywords.additional_as);
      out.required.push_back(true);
    } else {
      return std::optional<Members>();
    }
  }
  const size_t count = out.named.size();
  const auto& required = out.required;
  const auto least = static_cast<size_t>(std::count(required.begin(), required.end(), true));
  out.least = least;
  if (keywords.min_properties > least)
    return schema_error(keywords.pointer, "minProperties at most the number of required properties",
                        std::to_string(keywords.min_properties));
  if (keywords.max_properties < count || (offers_more && keywords.max_properties != UINT32_MAX))
    return schema_error(keywords.pointer,
                        "maxProperties at least the number of properties, and no "
                        "additional ones",
                        std::to_string(keywords.max_properties));
  return std::optional<Members>(std::move(out));
}

// A member's name that is none of these.
Result<ExprId> SchemaCompiler::other_name(const std::vector<std::string>& names, bool bare) {
  if (names.empty() && !bare) return blocks_.name();
  size_t all = 0;
  for (const std::string& name : names) {
    all += name.size();
    if (name.size() > kMostNamed || all > kMostNamedInAll)
      return make_error(ErrorKind::usage,
                        "json schema: expected property names of at most {} bytes, and {} in all, "
                        "beside additional ones, found {} and {}",
                        kMostNamed, kMostNamedInAll, name.size(), all);
  }
  std::vector<GrammarPtr> parts;
  if (bare) {
    parts.push_back(RK_TRY(Grammar::from_regex(kBareName)));
    if (!names.empty()) parts.push_back(RK_TRY(complement(RK_TRY(Grammar::one_of(names)))));
  } else if (blocks_.strings().without.empty()) {
    return other_string(pool_, names);
  } else {
    ExprPool own;
    const ExprId root = other_string(own, names);
    parts = {RK_TRY(finish(std::move(own), root)), without(blocks_.strings().without)};
  }
  return intersect(pool_, parts, "json schema: additional names", budget_);
}

Result<ExprId> SchemaCompiler::object(const Keywords& keywords) {
  const std::optional<Members> found = RK_TRY(members_of(keywords));
  if (!found) return kNothing;
  const auto& [named, required, least, offers_more] = *found;
  const size_t count = named.size();
  std::vector<std::string> names;
  std::vector<ExprId> members;
  for (const auto& [name, schemas] : named) {
    const std::string text = RK_TRY(written(name, keywords.pointer, /*name=*/true));
    names.push_back(name);
    members.push_back(
        pool_.sequence({pool_.literal(text), blocks_.colon(), RK_TRY(value_of(schemas))}));
  }
  ExprId more = kEmpty, other = kNothing;
  if (offers_more) {
    const ExprId name = RK_TRY(other_name(names, blocks_.strings().bare_names));
    other = pool_.sequence({name, blocks_.colon(), RK_TRY(value_of(keywords.additional_as))});
    more = pool_.repeat(pool_.concat(blocks_.comma(), other), 0, kUnbounded);
  }
  // From the right: `more` is what may follow a member that is there.
  std::vector<ExprId> first;
  if (least == 0) first = {pool_.concat(other, more)};
  const size_t last_first =
      static_cast<size_t>(std::find(required.begin(), required.end(), true) - required.begin());
  for (size_t i = count; i-- > 0;) {
    if (i <= last_first) first.push_back(pool_.concat(members[i], more));
    const ExprId next = pool_.concat(blocks_.comma(), members[i]);
    more = pool_.concat(required[i] ? next : pool_.optional(next), more);
  }
  return blocks_.bracketed('{', pool_.either(first), '}', least == 0);
}

Result<GrammarPtr> Grammar::from_parsed_schema(const nlohmann::ordered_json& schema,
                                               const JsonOptions& options) {
  RK_TRY(check_depth(schema));
  ExprPool pool;
  const ExprId root = RK_TRY(SchemaCompiler(pool, schema, options).compile());
  auto grammar = finish(std::move(pool), root);
  if (!grammar) return make_error(ErrorKind::usage, "json schema: {}", grammar.error().message);
  return grammar;
}

Result<GrammarPtr> Grammar::from_json_schema(std::string_view schema, const JsonOptions& options) {
  if (schema.size() > kMostText) {
    return make_error(ErrorKind::usage, "json schema: expected at most {} bytes, found {}",
                      kMostText, schema.size());
  }
  Limits limits;
  if (!Json::sax_parse(schema, &limits))
    return make_error(ErrorKind::usage, "json schema: {}", limits.error);
  return from_parsed_schema(Json::parse(schema), options);
}

}  // namespace ringkeep::grammar
