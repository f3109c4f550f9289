#include "server/openai/fields.h"

namespace ringkeep::openai {

void FieldSchema::add(const Names& names, Json schema, const std::string& doc) {
  // null stands for the default, but not where a value is required.
  for (const std::string& name : names) {
    Json property = schema;
    property["description"] =
        name == names.front() ? doc : fmt::format("The same as {}.", names.front());
    properties_[name] = std::move(property);
  }
}

namespace {

Json or_null(const Json& schema) {
  Json result = schema;
  if (schema.contains("type") && schema["type"].is_string()) {
    result["type"] = Json::array({schema["type"], "null"});
    if (result.contains("enum")) result["enum"].push_back(nullptr);
    return result;
  }
  return Json{{"anyOf", Json::array({schema, Json{{"type", "null"}}})}};
}

}  // namespace

// As short as it is written: .8 as a float has more digits as a double.
void FieldSchema::number(const Names& names, float& value, double least, double most,
                         const char* doc) {
  Json schema = {{"type", "number"}, {"minimum", least}, {"maximum", most}};
  if (value >= least && value <= most)
    schema["default"] = Json::parse(fmt::format("{}", value), nullptr, false);
  add(names, or_null(schema), doc);
}

void FieldSchema::integer(const Names& names, int64_t& value, int64_t least, int64_t most,
                          const char* doc) {
  Json schema = {{"type", "integer"}, {"minimum", least}};
  // Clients read numbers as doubles.
  schema["maximum"] = std::min<int64_t>(most, int64_t{1} << 53);
  if (value >= least && value <= schema["maximum"]) schema["default"] = value;
  add(names, or_null(schema), doc);
}

void FieldSchema::boolean(const Names& names, bool& value, const char* doc) {
  add(names, or_null({{"type", "boolean"}, {"default", value}}), doc);
}

void FieldSchema::text(const Names& names, std::string& value, const char* doc) {
  Json schema = {{"type", "string"}};
  if (!value.empty()) schema["default"] = value;
  add(names, or_null(schema), doc);
}

void FieldSchema::other(const Names& names, const Json& schema,
                        const std::function<void(const Json&)>&, const char* doc) {
  add(names, or_null(schema), doc);
}

void FieldSchema::required(const std::string& name) {
  required_.push_back(name);
  Json& property = properties_[name];
  if (property.contains("anyOf") && property["anyOf"].size() == 2) {
    Json plain = property["anyOf"][0];
    plain["description"] = property["description"];
    property = plain;
  } else if (property.contains("type") && property["type"].is_array()) {
    property["type"] = property["type"][0];
  }
}

void FieldSchema::without_effect(const Names& names) {
  for (const std::string& name : names)
    properties_[name] = {{"description", "Accepted and without effect here."}};
}

void FieldSchema::only(const std::string& name, const std::vector<Json>& allowed, const char* why) {
  Json values = Json::array();
  for (const Json& value : allowed) values.push_back(value);
  values.push_back(nullptr);
  properties_[name] = {{"enum", values}, {"description", why}};
}

Json FieldSchema::schema() const {
  Json result = {{"type", "object"}, {"properties", properties_}, {"additionalProperties", false}};
  if (!required_.empty()) result["required"] = required_;
  return result;
}

}  // namespace ringkeep::openai
