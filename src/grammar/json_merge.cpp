#include "grammar/json_merge.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "grammar/limits.h"

namespace ringkeep::grammar {
namespace {

constexpr int kMostMerges = 64;        // allOf and $ref within each other, for one value
constexpr size_t kMostTogether = 200;  // schemas that hold of one value
constexpr size_t kMostCompared = 1'000;
constexpr size_t kMostWork = 1'000'000;  // keywords, properties and values looked at in all

std::string child(const std::string& pointer, std::string_view key) {
  std::string out = pointer + '/';
  for (const char c : key) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}
std::string child(const std::string& pointer, size_t index) {
  return pointer + '/' + std::to_string(index);
}

// Keywords that say nothing about which texts are valid.
const std::set<std::string, std::less<>>& annotations() {
  static const std::set<std::string, std::less<>> names = {
      "title",        "description", "default",         "example",         "examples",
      "deprecated",   "readOnly",    "writeOnly",       "$schema",         "$id",
      "$comment",     "$defs",       "definitions",     "$anchor",         "discriminator",
      "externalDocs", "xml",         "contentEncoding", "contentMediaType"};
  return names;
}

Result<uint32_t> count(const Json& value, const std::string& pointer) {
  double number = -1;
  if (value.is_number()) number = value.get<double>();
  if (!(number >= 0) || number != std::floor(number))
    return schema_error(pointer, "a whole number from 0 up", brief(value));
  return number > kMostRepeats ? UINT32_MAX : static_cast<uint32_t>(number);
}

Result<uint8_t> type_of(const Json& name, const std::string& pointer) {
  static const std::map<std::string, uint8_t> types = {
      {"null", kTypeNull},       {"boolean", kTypeBoolean},
      {"integer", kTypeInteger}, {"number", kTypeInteger | kTypeNumber},
      {"string", kTypeString},   {"array", kTypeArray},
      {"object", kTypeObject}};
  if (name.is_string()) {
    const auto found = types.find(name.get<std::string>());
    if (found != types.end()) return found->second;
  }
  return schema_error(pointer, "null, boolean, integer, number, string, array or object",
                      brief(name));
}

void keep_common(std::optional<std::vector<Json>>& values, const std::vector<Json>& others) {
  if (!values) {
    values = others;
    return;
  }
  std::erase_if(*values, [&](const Json& value) {
    return std::find(others.begin(), others.end(), value) == others.end();
  });
}

std::optional<std::string> decode_percent(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size() || !std::isxdigit(static_cast<unsigned char>(text[i + 1])) ||
        !std::isxdigit(static_cast<unsigned char>(text[i + 2])))
      return std::nullopt;
    out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
    i += 2;
  }
  return out;
}

}  // namespace

bool is_annotation(std::string_view key) {
  return annotations().contains(key) || key.starts_with("x-");
}

Error schema_error(std::string_view pointer, std::string_view expected, std::string_view found) {
  return make_error(ErrorKind::usage, "json schema: at {}: expected {}, found {}",
                    pointer.empty() ? "the root" : pointer, expected, found);
}

std::string brief(const Json& value) {
  constexpr size_t kMost = 60;
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

Result<Place> SchemaDocument::resolve(const Place& place) const {
  const std::string pointer = child(place.pointer, "$ref");
  const Json& ref = place.schema->at("$ref");
  if (!ref.is_string()) return schema_error(pointer, "a string", brief(ref));
  const std::string text = ref.get<std::string>();
  const auto path =
      text.starts_with("#") ? decode_percent(std::string_view(text).substr(1)) : std::nullopt;
  if (!path || (!path->empty() && (*path)[0] != '/'))
    return schema_error(pointer, "a reference into this schema, such as #/$defs/name", brief(ref));
  Place out{&root_, ""};
  for (size_t at = 0; at < path->size();) {
    const size_t end = std::min(path->find('/', at + 1), path->size());
    std::string key;
    for (size_t i = at + 1; i < end; ++i) {
      if ((*path)[i] == '~' && i + 1 < end)
        key += (*path)[++i] == '0' ? '~' : '/';
      else
        key += (*path)[i];
    }
    const Json& here = *out.schema;
    const Json* next = nullptr;
    if (here.is_object()) {
      const auto found = here.find(key);
      if (found != here.end()) next = &*found;
    } else if (here.is_array() && !key.empty() && key.size() < 7 &&
               std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      const auto index = static_cast<size_t>(std::stoul(key));
      if (index < here.size()) next = &here[index];
    }
    if (next == nullptr) return schema_error(pointer, "a schema at " + text, "nothing there");
    out = {next, child(out.pointer, key)};
    at = end;
  }
  return out;
}

Result<Place> SchemaDocument::target(Place place) const {
  for (int i = 0; i < kMostMerges; ++i) {
    if (!place.schema->is_object() || !place.schema->contains("$ref")) return place;
    for (const auto& [key, value] : place.schema->items())
      if (key != "$ref" && !is_annotation(key)) return place;
    place = RK_TRY(resolve(place));
  }
  return schema_error(place.pointer, "a $ref that ends at a schema", "only further $ref");
}

Status SchemaDocument::add(const Place& place, Keywords& into, int nesting) const {
  const Json& schema = *place.schema;
  if (into.pointer.empty()) into.pointer = place.pointer;
  if (schema.is_boolean()) {
    into.never = into.never || !schema.get<bool>();
    return {};
  }
  if (!schema.is_object())
    return schema_error(place.pointer, "a schema (an object, true or false)", brief(schema));
  work_ += 1 + schema.size();
  if (work_ > kMostWork)
    return schema_error(place.pointer, "a smaller schema", "too many schemas to bring together");
  if (nesting > kMostMerges)
    return schema_error(place.pointer, "a $ref or allOf that comes to an end",
                        "one that holds itself");

  for (const auto& [key, value] : schema.items()) {
    const std::string pointer = child(place.pointer, key);
    const auto each = [&](const Json& list, const auto& visit) -> Status {
      if (!list.is_array() || list.empty())
        return schema_error(pointer, "a list of at least one", brief(list));
      for (size_t i = 0; i < list.size(); ++i) RK_TRY(visit(list[i], child(pointer, i)));
      return {};
    };
    if (key == "type") {
      uint8_t types = 0;
      if (value.is_array()) {
        RK_TRY(each(value, [&](const Json& name, const std::string& at) -> Status {
          types |= RK_TRY(type_of(name, at));
          return {};
        }));
      } else {
        types = RK_TRY(type_of(value, pointer));
      }
      if (schema.contains("nullable") && schema["nullable"] == true) types |= kTypeNull;
      into.types &= types;
    } else if (key == "nullable") {
      if (!value.is_boolean()) return schema_error(pointer, "true or false", brief(value));
    } else if (key == "enum" || key == "const") {
      std::vector<Json> values;
      if (key == "const") {
        values.push_back(value);
      } else {
        RK_TRY(each(value, [&](const Json& one, const std::string&) -> Status {
          values.push_back(one);
          return {};
        }));
      }
      if (schema.contains("nullable") && schema["nullable"] == true) values.push_back(nullptr);
      if (into.values && values.size() > kMostCompared)
        return schema_error(pointer,
                            fmt::format("at most {} values beside another enum", kMostCompared),
                            std::to_string(values.size()));
      work_ += values.size();
      keep_common(into.values, values);
    } else if (key == "minimum" || key == "exclusiveMinimum" || key == "maximum" ||
               key == "exclusiveMaximum") {
      if (!value.is_number()) return schema_error(pointer, "a number", brief(value));
      const auto at = decimal(value);
      if (!at) return schema_error(pointer, "a number of an ordinary size", brief(value));
      const Bound bound{*at, key.starts_with("exclusive")};
      const bool is_low = key == "minimum" || key == "exclusiveMinimum";
      std::optional<Bound>& old = is_low ? into.low : into.high;
      const int order = old ? compare(bound.at, old->at) * (is_low ? 1 : -1) : 1;
      if (order > 0 || (order == 0 && bound.exclusive)) old = bound;
    } else if (key == "multipleOf") {
      const auto of = value.is_number() ? decimal(value) : std::nullopt;
      if (!of || of->negative || of->is_zero())
        return schema_error(pointer, "a number above 0", brief(value));
      into.multiples.emplace_back(*of, pointer);
    } else if (key == "minLength") {
      into.min_length = std::max(into.min_length, RK_TRY(count(value, pointer)));
    } else if (key == "maxLength") {
      into.max_length = std::min(into.max_length, RK_TRY(count(value, pointer)));
    } else if (key == "pattern" || key == "format") {
      if (!value.is_string()) return schema_error(pointer, "a string", brief(value));
      if (key == "format" && !known_format(value.get<std::string>()))
        return schema_error(pointer,
                            "one of date, time, date-time, duration, uuid, email, hostname, ipv4, "
                            "ipv6, uri",
                            brief(value));
      auto& list = key == "pattern" ? into.patterns : into.formats;
      list.emplace_back(value.get<std::string>(), pointer);
    } else if (key == "anyOf" || key == "oneOf") {
      std::vector<Place> places;
      RK_TRY(each(value, [&](const Json& one, const std::string& at) -> Status {
        places.push_back({&one, at});
        return {};
      }));
      into.any_of.push_back(std::move(places));
    } else if (key == "allOf") {
      RK_TRY(each(value, [&](const Json& one, const std::string& at) -> Status {
        return add({&one, at}, into, nesting + 1);
      }));
    } else if (key == "$ref") {
      RK_TRY(add(RK_TRY(resolve(place)), into, nesting + 1));
    } else if (key == "minItems" || key == "maxItems" || key == "items" || key == "prefixItems" ||
               key == "properties" || key == "required" || key == "additionalProperties" ||
               key == "minProperties" || key == "maxProperties") {
      // Together, below.
    } else if (key == "uniqueItems") {
      if (value != false) return schema_error(pointer, "no uniqueItems (not supported)", "true");
    } else if (!is_annotation(key)) {
      return schema_error(pointer, "a supported keyword (docs/structured-output.md lists them)",
                          key);
    }
  }
  RK_TRY(add_array(place, into));
  return add_object(place, into);
}

Status SchemaDocument::add_array(const Place& place, Keywords& into) const {
  const Json& schema = *place.schema;
  const auto at = [&](const char* key) { return child(place.pointer, key); };
  if (const auto found = schema.find("minItems"); found != schema.end())
    into.min_items = std::max(into.min_items, RK_TRY(count(*found, at("minItems"))));
  if (const auto found = schema.find("maxItems"); found != schema.end())
    into.max_items = std::min(into.max_items, RK_TRY(count(*found, at("maxItems"))));
  const auto prefix = schema.find("prefixItems");
  const auto items = schema.find("items");
  if (prefix == schema.end() && items == schema.end()) return {};
  if (prefix != schema.end() && !prefix->is_array())
    return schema_error(at("prefixItems"), "a list of schemas", brief(*prefix));
  if (items != schema.end() && items->is_array())
    return schema_error(at("items"), "a schema (a list is written prefixItems)", "a list");

  // Two lists side by side: each place takes what both say of it.
  const size_t mine = prefix == schema.end() ? 0 : prefix->size();
  const size_t longer = std::max(mine, into.prefix.size());
  const Conjunction rest =
      items == schema.end() ? Conjunction{} : Conjunction{{&*items, at("items")}};
  for (size_t i = 0; i < longer; ++i) {
    if (i >= into.prefix.size()) {
      into.prefix.push_back(into.items);
      if (!into.more_items) into.max_items = std::min(into.max_items, static_cast<uint32_t>(i));
    }
    Conjunction& here = into.prefix[i];
    if (i < mine) {
      here.push_back({&(*prefix)[i], child(at("prefixItems"), i)});
    } else {
      here.insert(here.end(), rest.begin(), rest.end());
    }
    if (here.size() > kMostTogether)
      return schema_error(place.pointer, "fewer schemas for one item", std::to_string(here.size()));
  }
  if (items != schema.end() && *items == false) into.more_items = false;
  into.items.insert(into.items.end(), rest.begin(), rest.end());
  if (into.items.size() > kMostTogether)
    return schema_error(place.pointer, "fewer schemas for one item",
                        std::to_string(into.items.size()));
  return {};
}

Status SchemaDocument::add_object(const Place& place, Keywords& into) const {
  const Json& schema = *place.schema;
  const auto at = [&](const char* key) { return child(place.pointer, key); };
  if (const auto found = schema.find("minProperties"); found != schema.end())
    into.min_properties = std::max(into.min_properties, RK_TRY(count(*found, at("minProperties"))));
  if (const auto found = schema.find("maxProperties"); found != schema.end())
    into.max_properties = std::min(into.max_properties, RK_TRY(count(*found, at("maxProperties"))));
  if (const auto found = schema.find("required"); found != schema.end()) {
    if (!found->is_array()) return schema_error(at("required"), "a list of names", brief(*found));
    for (const Json& name : *found) {
      if (!name.is_string()) return schema_error(at("required"), "names", brief(name));
      if (into.known_required.insert(name.get<std::string>()).second) {
        into.required.push_back(name.get<std::string>());
      }
    }
  }

  // additionalProperties speaks of what its own schema does not name.
  const auto additional = schema.find("additionalProperties");
  const bool closes = additional != schema.end() && *additional == false;
  Conjunction rest;
  if (additional != schema.end()) {
    if (!additional->is_boolean() && !additional->is_object())
      return schema_error(at("additionalProperties"), "a schema", brief(*additional));
    if (additional->is_object()) rest = {{&*additional, at("additionalProperties")}};
  }
  std::vector<std::pair<std::string, Place>> mine;
  if (const auto found = schema.find("properties"); found != schema.end()) {
    if (!found->is_object())
      return schema_error(at("properties"), "an object of schemas", brief(*found));
    into.names_properties = true;
    for (const auto& [name, value] : found->items())
      mine.emplace_back(name, Place{&value, child(at("properties"), name)});
    work_ += mine.size() + into.properties.size();
  }
  std::map<std::string_view, size_t> old;
  for (size_t i = 0; i < into.properties.size(); ++i) old[into.properties[i].first] = i;
  std::set<std::string_view> named;
  std::vector<std::pair<std::string, Conjunction>> fresh;
  for (const auto& [name, value] : mine) {
    named.insert(name);
    const auto found = old.find(name);
    if (found != old.end()) {
      Conjunction& both = into.properties[found->second].second;
      both.push_back(value);
      if (both.size() > kMostTogether)
        return schema_error(value.pointer, "fewer schemas for one property",
                            std::to_string(both.size()));
    } else if (into.forbidden.contains(name) || !into.additional) {
      into.forbidden.insert(name);
    } else {
      Conjunction both = into.additional_as;
      both.push_back(value);
      fresh.emplace_back(name, std::move(both));
    }
  }
  if (additional != schema.end()) {
    std::vector<std::pair<std::string, Conjunction>> kept;
    for (auto& [name, value] : into.properties) {
      if (!named.contains(name)) {
        if (closes) {
          into.forbidden.insert(name);
          continue;
        }
        value.insert(value.end(), rest.begin(), rest.end());
      }
      kept.emplace_back(name, std::move(value));
    }
    into.properties = std::move(kept);
    into.additional_named = true;
    into.additional = into.additional && !closes;
    into.additional_as.insert(into.additional_as.end(), rest.begin(), rest.end());
  }
  for (auto& entry : fresh) into.properties.push_back(std::move(entry));
  return {};
}

}  // namespace ringkeep::grammar
