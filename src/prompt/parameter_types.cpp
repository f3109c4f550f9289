#include "prompt/parameter_types.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace ringkeep::prompt {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxSchemas = 2'000;
constexpr int kMaxDepth = 64;

uint8_t type_named(const Json& name) {
  static constexpr std::pair<std::string_view, uint8_t> kTypes[] = {
      {"null", kParameterNull},       {"boolean", kParameterBoolean},
      {"integer", kParameterInteger}, {"number", kParameterInteger | kParameterNumber},
      {"string", kParameterString},   {"array", kParameterArray},
      {"object", kParameterObject},
  };
  if (!name.is_string()) return 0;
  for (const auto& [known, type] : kTypes)
    if (name.get_ref<const std::string&>() == known) return type;
  return 0;
}

class Reader {
 public:
  explicit Reader(const Json& root) : root_(root) {}

  // The types of a value of the schema.
  uint8_t types(const Json& schema, int depth) {
    if (!enter(schema, depth)) return kParameterAny;
    uint8_t all = kParameterAny;
    if (const auto type = schema.find("type"); type != schema.end()) {
      uint8_t named = 0;
      if (type->is_array()) {
        for (const Json& one : *type) named |= type_named(one);
      } else {
        named = type_named(*type);
      }
      if (is_true(schema, "nullable")) named |= kParameterNull;
      if (named != 0) all &= named;
    }
    if (const auto list = schema.find("enum"); list != schema.end() && list->is_array()) {
      uint8_t values = is_true(schema, "nullable") ? kParameterNull : 0;
      for (const Json& value : *list) values |= parameter_type(value);
      if (values != 0) all &= values;
    }
    if (const auto value = schema.find("const"); value != schema.end())
      all &= parameter_type(*value) | (is_true(schema, "nullable") ? kParameterNull : 0);
    each(schema, "allOf", [&](const Json& one) { all &= types(one, depth + 1); });
    for (const char* key : {"anyOf", "oneOf"}) {
      uint8_t either = 0;
      each(schema, key, [&](const Json& one) { either |= types(one, depth + 1); });
      if (either != 0) all &= either;
    }
    if (const Json* target = referenced(schema)) all &= types(*target, depth + 1);
    return all;
  }

  // Those of its member; none where it says nothing of it.
  std::optional<uint8_t> member(const Json& schema, const std::string& name, int depth) {
    std::optional<uint8_t> all;
    if (!enter(schema, depth)) return all;
    const auto both = [&](std::optional<uint8_t> other) {
      if (other) all = all.value_or(kParameterAny) & *other;
    };
    const auto properties = schema.find("properties");
    const auto additional = schema.find("additionalProperties");
    if (properties != schema.end() && properties->is_object() && properties->contains(name)) {
      both(types((*properties)[name], depth + 1));
    } else if (additional != schema.end() && additional->is_object()) {
      both(types(*additional, depth + 1));
    }
    each(schema, "allOf", [&](const Json& one) { both(member(one, name, depth + 1)); });
    for (const char* key : {"anyOf", "oneOf"}) {
      std::optional<uint8_t> either;
      each(schema, key, [&](const Json& one) {
        if (const auto types = member(one, name, depth + 1)) either = either.value_or(0) | *types;
      });
      both(either);
    }
    if (const Json* target = referenced(schema)) both(member(*target, name, depth + 1));
    return all;
  }

 private:
  bool enter(const Json& schema, int depth) {
    return schema.is_object() && depth < kMaxDepth && ++schemas_ < kMaxSchemas;
  }
  static bool is_true(const Json& schema, const char* key) {
    const auto found = schema.find(key);
    return found != schema.end() && *found == true;
  }
  template <typename Visit>
  static void each(const Json& schema, const char* key, const Visit& visit) {
    const auto list = schema.find(key);
    if (list == schema.end() || !list->is_array()) return;
    for (const Json& one : *list) visit(one);
  }
  const Json* referenced(const Json& schema) const {
    const auto ref = schema.find("$ref");
    if (ref == schema.end() || !ref->is_string()) return nullptr;
    const auto& text = ref->get_ref<const std::string&>();
    if (text == "#") return &root_;
    if (!text.starts_with("#/")) return nullptr;
    const Json* at = &root_;
    for (size_t begin = 2; begin <= text.size();) {
      const size_t end = std::min(text.find('/', begin), text.size());
      std::string key;
      for (size_t i = begin; i < end; ++i) {
        if (text[i] == '~' && i + 1 < end) {
          key += text[++i] == '0' ? '~' : '/';
        } else {
          key += text[i];
        }
      }
      begin = end + 1;
      if (at->is_object() && at->contains(key)) {
        at = &(*at)[key];
      } else if (at->is_array() && !key.empty() && key.size() < 7 &&
                 key.find_first_not_of("0123456789") == key.npos && std::stoul(key) < at->size()) {
        at = &(*at)[std::stoul(key)];
      } else {
        return nullptr;
      }
    }
    return at;
  }

  const Json& root_;
  int schemas_ = 0;
};

}  // namespace

std::optional<uint8_t> parameter_types(const Json& parameters, const std::string& name) {
  return Reader(parameters).member(parameters, name, 0);
}

uint8_t parameter_type(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return kParameterNull;
    case Json::value_t::boolean: return kParameterBoolean;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned: return kParameterInteger;
    case Json::value_t::string: return kParameterString;
    case Json::value_t::array: return kParameterArray;
    case Json::value_t::object: return kParameterObject;
    case Json::value_t::number_float: break;
    default: return 0;
  }
  const double number = value.get<double>();
  return number == std::floor(number) ? kParameterInteger : kParameterNumber;
}

}  // namespace ringkeep::prompt
