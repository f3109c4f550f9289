// The messages of a chat, checked field by field and brought into the shape that templates read:
// content as one string, the arguments of tool calls as objects.
#include <algorithm>

#include "server/openai/request.h"

namespace ringkeep::openai {
namespace {

const Json kMessageSchema = {
    {"type", "object"},
    {"properties",
     {{"role", {{"type", "string"}, {"minLength", 1}}},
      {"content",
       {{"anyOf",
         {{{"type", {"string", "null"}}},
          {{"type", "array"},
           {"minItems", 1},
           {"items",
            {{"type", "object"},
             {"properties", {{"type", {{"const", "text"}}}, {"text", {{"type", "string"}}}}},
             {"required", Json::array({"type", "text"})},
             {"additionalProperties",
              {{"maxProperties", 0},
               {"maxItems", 0},
               {"type", {"null", "object", "array"}}}}}}}}}}},
      {"name", {{"type", {"string", "null"}}}},
      {"tool_call_id", {{"type", {"string", "null"}}}},
      {"tool_calls", {{"type", {"array", "null"}}, {"items", {{"type", "object"}}}}},
      {"reasoning_content", {{"type", {"string", "null"}}}},
      {"refusal", {{"type", {"string", "null"}}}}}},
    {"required", Json::array({"role"})}};

class MessageReader {
 public:
  explicit MessageReader(Fields& fields) : fields_(fields) {}

  Json read(const Json& value, const std::string& path) {
    path_ = path;
    Json out = Json::object();
    if (!value.is_object()) {
      fail("", fmt::format("expected an object, found {}", describe(value)));
      return out;
    }
    const Json* role = member(value, "role");
    if (role == nullptr || !role->is_string() || role->get_ref<const std::string&>().empty()) {
      fail(".role", role == nullptr ? "it is required"
                                    : fmt::format("expected a string, found {}", describe(*role)));
      return out;
    }
    out["role"] = *role;
    out["content"] = content(value, role->get_ref<const std::string&>());
    for (const char* name : {"name", "tool_call_id"}) copy_text(value, name, name, out);
    copy_text(value, "reasoning", "reasoning_content", out);
    copy_text(value, "reasoning_content", "reasoning_content", out);
    if (const Json* calls = member(value, "tool_calls")) out["tool_calls"] = tool_calls(*calls);
    known_members(value);
    return out;
  }

 private:
  void fail(const std::string& where, const std::string& message,
            const std::string& code = "invalid_value") {
    fields_.fail(path_ + where, message, code);
  }
  static const Json* member(const Json& value, const char* name) {
    const auto found = value.find(name);
    return found == value.end() || found->is_null() ? nullptr : &*found;
  }

  void copy_text(const Json& value, const char* name, const char* as, Json& out) {
    const Json* text = member(value, name);
    if (text == nullptr) return;
    if (!text->is_string())
      return fail(std::string(".") + name,
                  fmt::format("expected a string, found {}", describe(*text)));
    out[as] = *text;
  }

  Json content(const Json& value, const std::string& role) {
    const Json* content = member(value, "content");
    if (content == nullptr) {
      const Json* refusal = member(value, "refusal");
      if (refusal != nullptr && refusal->is_string()) return *refusal;
      // What an assistant said may be a tool call alone.
      if (role != "assistant") fail(".content", "it is required", "missing_field");
      return member(value, "tool_calls") != nullptr ? Json() : Json("");
    }
    if (content->is_string()) return *content;
    if (!content->is_array() || content->empty()) {
      fail(".content",
           fmt::format("expected a string or parts of it, found {}", describe(*content)));
      return "";
    }
    parts_ += content->size();
    if (!within(fields_, path_ + ".content", parts_, kMaxParts, "parts, of all messages,"))
      return "";
    std::string text;
    for (size_t i = 0; i < content->size(); ++i) {
      if (i > 0) text += '\n';
      text += part((*content)[i], fmt::format(".content[{}]", i));
    }
    return text;
  }

  std::string part(const Json& part, const std::string& where) {
    const Json* type = part.is_object() ? member(part, "type") : nullptr;
    if (type == nullptr || !type->is_string()) {
      fail(where, fmt::format("expected an object with a type, found {}", describe(part)));
      return {};
    }
    const std::string& name = type->get_ref<const std::string&>();
    if (name != "text" && name != "refusal") {
      fail(where + ".type",
           name.starts_with("image") || name == "input_image" || name == "input_audio" ||
                   name == "file" || name == "video_url"
               ? fmt::format("this model takes text only, found {}", describe(*type))
               : fmt::format("expected text, found {}", describe(*type)),
           "unsupported_value");
      return {};
    }
    const Json* text = member(part, name.c_str());
    if (text == nullptr || !text->is_string()) {
      fail(where + "." + name, "expected a string");
      return {};
    }
    for (const auto& [key, item] : part.items())
      if (key != "type" && key != name && key != "cache_control" && !says_nothing(item))
        fail(where + "." + key, "there is no such field", "unknown_parameter");
    return text->get<std::string>();
  }

  Json tool_calls(const Json& calls) {
    Json out = Json::array();
    if (!calls.is_array()) {
      fail(".tool_calls", fmt::format("expected an array, found {}", describe(calls)));
      return out;
    }
    calls_ += calls.size();
    if (!within(fields_, path_ + ".tool_calls", calls_, kMaxToolCalls, "calls, of all messages,"))
      return out;
    for (size_t i = 0; i < calls.size(); ++i) {
      const std::string where = fmt::format(".tool_calls[{}]", i);
      const Json& call = calls[i];
      const Json* function = call.is_object() ? member(call, "function") : nullptr;
      const Json* name =
          function != nullptr && function->is_object() ? member(*function, "name") : nullptr;
      if (name == nullptr || !name->is_string()) {
        fail(where + ".function.name", "expected a string");
        return out;
      }
      Json arguments = Json::object();
      if (const Json* given = member(*function, "arguments")) {
        arguments = *given;
        if (given->is_string() && !given->get_ref<const std::string&>().empty()) {
          auto parsed = parse_arguments(given->get_ref<const std::string&>());
          if (!parsed.ok()) fail(where + ".function.arguments", parsed.error().message);
          arguments = parsed.ok() ? std::move(*parsed) : Json::object();
        } else if (given->is_string()) {
          arguments = Json::object();
        }
        if (!arguments.is_object()) fail(where + ".function.arguments", "expected a JSON object");
      }
      Json entry = {{"type", "function"},
                    {"function", {{"name", *name}, {"arguments", std::move(arguments)}}}};
      if (const Json* id = member(call, "id")) entry["id"] = *id;
      out.push_back(std::move(entry));
    }
    return out;
  }

  void known_members(const Json& value) {
    // The last two are what OpenAI's client and LiteLLM add to a reply that is sent back.
    static constexpr std::string_view kKnown[] = {"role",
                                                  "content",
                                                  "name",
                                                  "tool_calls",
                                                  "tool_call_id",
                                                  "refusal",
                                                  "reasoning",
                                                  "annotations",
                                                  "reasoning_content",
                                                  "parsed",
                                                  "provider_specific_fields"};
    for (const auto& [name, item] : value.items()) {
      if (std::ranges::count(kKnown, name) > 0 || says_nothing(item)) continue;
      if (name == "audio" || name == "function_call")
        fail("." + name, "it is not supported", "unsupported_value");
      else
        fail("." + name, "there is no such field", "unknown_parameter");
    }
  }

  // Clients send back whole replies, with the members that are not used.
  static bool says_nothing(const Json& value) {
    return value.is_null() || (value.is_structured() && value.empty());
  }

  Fields& fields_;
  std::string path_;
  size_t parts_ = 0;  // of all messages so far
  size_t calls_ = 0;
};

}  // namespace

bool within(Fields& fields, const std::string& param, size_t count, size_t most,
            const char* things) {
  if (count <= most) return true;
  fields.fail(param, fmt::format("at most {} {} are allowed, found {}", most, things, count),
              "too_many_values");
  return false;
}

bool check_messages_size(Fields& fields, const Json& messages) {
  if (!messages.is_array() || messages.empty()) {
    fields.fail("messages",
                fmt::format("expected an array with a message, found {}", describe(messages)));
    return false;
  }
  return within(fields, "messages", messages.size(), kMaxMessages, "messages");
}

void visit_messages(Fields& fields, Json& messages, bool required) {
  fields.other(
      {"messages"},
      {{"type", "array"}, {"minItems", 1}, {"maxItems", kMaxMessages}, {"items", kMessageSchema}},
      [&](const Json& value) {
        if (!check_messages_size(fields, value)) return;
        MessageReader reader(fields);
        messages = Json::array();
        for (size_t i = 0; i < value.size(); ++i)
          messages.push_back(reader.read(value[i], fmt::format("messages[{}]", i)));
      },
      "Parts of a content are joined with line breaks.");
  if (required) fields.required("messages");
}

void fit_developer(const std::string& template_source, Json& messages) {
  if (template_source.find("developer") != std::string::npos) return;
  for (Json& message : messages)
    if (message["role"] == "developer") message["role"] = "system";
}

void visit_tools(Fields& fields, Json& tools) {
  const Json tool = {
      {"type", "object"},
      {"properties", {{"type", {{"const", "function"}}}, {"function", {{"type", "object"}}}}},
      {"required", Json::array({"type", "function"})}};
  fields.other(
      {"tools"}, {{"type", "array"}, {"maxItems", kMaxTools}, {"items", tool}},
      [&](const Json& value) {
        if (!value.is_array())
          return fields.fail("tools", fmt::format("expected an array, found {}", describe(value)));
        if (!within(fields, "tools", value.size(), kMaxTools, "tools")) return;
        for (size_t i = 0; i < value.size(); ++i) {
          const Json& entry = value[i];
          const std::string where = fmt::format("tools[{}]", i);
          if (!entry.is_object() || !entry.contains("type") || entry["type"] != "function")
            return fields.fail(where + ".type", "expected \"function\"");
          if (!entry.contains("function") || !entry["function"].is_object() ||
              !entry["function"].contains("name") || !entry["function"]["name"].is_string())
            return fields.fail(where + ".function.name", "expected a string");
          const Json& function = entry["function"];
          if (function.contains("parameters") && !function["parameters"].is_object() &&
              !function["parameters"].is_null())
            return fields.fail(where + ".function.parameters", "expected an object");
        }
        if (!value.empty()) tools = value;
      },
      "Functions that the model may call.");
}

}  // namespace ringkeep::openai
