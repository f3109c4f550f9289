// The fields that say what the text has to look like, of OpenAI, llama.cpp and vLLM.
#include <algorithm>

#include "server/openai/request.h"

namespace ringkeep::openai {
namespace {

using Kind = OutputRule::Kind;

class RuleReader {
 public:
  RuleReader(Fields& fields, OutputRule& rule) : fields_(fields), rule_(rule) {}

  void set(Kind kind, const std::string& param) {
    if (rule_.kind != Kind::none)
      return fields_.fail(param,
                          fmt::format("{} says already what the text has to be", rule_.param));
    rule_.kind = kind;
    rule_.param = param;
  }

  // A schema as an object, or (vLLM) as a string of JSON.
  void schema(const Json& value, const std::string& param) {
    Json schema = value;
    if (value.is_string()) {
      auto parsed = parse_json(value.get_ref<const std::string&>());
      if (!parsed.ok()) return fields_.fail(param, parsed.error().message);
      schema = std::move(*parsed);
    }
    if (!schema.is_object() && !schema.is_boolean())
      return fields_.fail(param, fmt::format("expected a JSON schema, found {}", describe(value)));
    set(Kind::json_schema, param);
    rule_.schema = std::move(schema);
  }

  void text(const Json& value, Kind kind, const std::string& param) {
    if (!value.is_string() || value.get_ref<const std::string&>().empty())
      return fields_.fail(
          param, fmt::format("expected a string that is not empty, found {}", describe(value)));
    set(kind, param);
    rule_.text = value.get<std::string>();
  }

  void choice(const Json& value, const std::string& param) {
    bool good = value.is_array() && !value.empty();
    for (const Json& item : value) good = good && item.is_string();
    if (!good)
      return fields_.fail(param,
                          fmt::format("expected an array of strings, found {}", describe(value)));
    set(Kind::choice, param);
    rule_.choices = value.get<std::vector<std::string>>();
  }

  void response_format(const Json& value) {
    static const std::string kName = "response_format";
    if (!value.is_object() || !value.contains("type") || !value["type"].is_string())
      return fields_.fail(kName,
                          fmt::format("expected an object with a type, found {}", describe(value)));
    const std::string& type = value["type"].get_ref<const std::string&>();
    if (type == "text") {
      known_members(value, kName, {"type"});
    } else if (type == "json_object") {  // llama.cpp takes a schema here
      known_members(value, kName, {"type", "schema"});
      if (value.contains("schema") && !value["schema"].is_null())
        schema(value["schema"], kName + ".schema");
      else
        set(Kind::json_object, kName);
    } else if (type == "json_schema") {
      const std::string param = kName + ".json_schema";
      known_members(value, kName, {"type", "json_schema", "schema"});
      if (value.contains("schema") && !value.contains("json_schema"))
        return schema(value["schema"], kName + ".schema");
      if (!value.contains("json_schema") || !value["json_schema"].is_object())
        return fields_.fail(param, "expected an object with a schema", "missing_field");
      const Json& inner = value["json_schema"];
      known_members(inner, param, {"name", "description", "strict", "schema"});
      if (inner.contains("name") && !inner["name"].is_string())
        return fields_.fail(param + ".name", "expected a string");
      if (inner.contains("strict") && !inner["strict"].is_boolean() && !inner["strict"].is_null())
        return fields_.fail(param + ".strict", "expected true or false");
      if (!inner.contains("schema"))
        return fields_.fail(param + ".schema", "it is required", "missing_field");
      schema(inner["schema"], param + ".schema");
    } else {
      fields_.fail(kName + ".type",
                   fmt::format("expected text, json_object or json_schema, found {}",
                               describe(value["type"])));
    }
  }

  void structured_outputs(const Json& value) {
    static const std::string kName = "structured_outputs";
    if (!value.is_object())
      return fields_.fail(kName, fmt::format("expected an object, found {}", describe(value)));
    known_members(value, kName, {"json", "regex", "choice", "grammar", "json_object"});
    const auto given = [&](const char* name) {
      return value.contains(name) && !value[name].is_null();
    };
    if (given("json")) schema(value["json"], kName + ".json");
    if (given("regex")) text(value["regex"], Kind::regex, kName + ".regex");
    if (given("choice")) choice(value["choice"], kName + ".choice");
    if (given("grammar")) text(value["grammar"], Kind::grammar, kName + ".grammar");
    if (!given("json_object")) return;
    if (!value["json_object"].is_boolean())
      return fields_.fail(kName + ".json_object", "expected true or false");
    if (value["json_object"].get<bool>()) set(Kind::json_object, kName + ".json_object");
  }

 private:
  void known_members(const Json& value, const std::string& param,
                     std::initializer_list<std::string_view> names) {
    for (const auto& [name, member] : value.items())
      if (std::ranges::count(names, name) == 0)
        fields_.fail(param + "." + name, "there is no such field", "unknown_parameter");
  }

  Fields& fields_;
  OutputRule& rule_;
};

}  // namespace

void visit_output_rule(Fields& fields, OutputRule& rule, bool response_format) {
  RuleReader reader(fields, rule);
  const Json object = {{"type", "object"}};
  const Json text = {{"type", "string"}, {"minLength", 1}};
  if (response_format)
    fields.other(
        {"response_format"},
        {{"type", "object"},
         {"properties",
          {{"type", {{"enum", {"text", "json_object", "json_schema"}}}},
           {"json_schema", object},
           {"schema", object}}},
         {"required", Json::array({"type"})},
         {"additionalProperties", false}},
        [&](const Json& value) { reader.response_format(value); },
        "text, json_object, or json_schema with a schema.");
  fields.other(
      {"json_schema"}, object, [&](const Json& value) { reader.schema(value, "json_schema"); },
      "llama.cpp: the text is JSON of this schema.");
  fields.other(
      {"grammar"}, text, [&](const Json& value) { reader.text(value, Kind::grammar, "grammar"); },
      "llama.cpp: the text follows this GBNF grammar.");
  fields.other(
      {"guided_json"}, object, [&](const Json& value) { reader.schema(value, "guided_json"); },
      "vLLM: as json_schema.");
  fields.other(
      {"guided_regex"}, text,
      [&](const Json& value) { reader.text(value, Kind::regex, "guided_regex"); },
      "vLLM: the whole text matches.");
  fields.other(
      {"guided_grammar"}, text,
      [&](const Json& value) { reader.text(value, Kind::grammar, "guided_grammar"); },
      "vLLM: as grammar.");
  fields.other(
      {"guided_choice"}, {{"type", "array"}, {"items", {{"type", "string"}}}, {"minItems", 1}},
      [&](const Json& value) { reader.choice(value, "guided_choice"); },
      "vLLM: the text is one of these.");
  fields.other(
      {"structured_outputs"}, object, [&](const Json& value) { reader.structured_outputs(value); },
      "vLLM: one of json, regex, choice, grammar, json_object.");
}

}  // namespace ringkeep::openai
