#include "text/chat_template.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "text/jinja/evaluator.h"
#include "text/jinja/lexer.h"
#include "text/jinja/parser.h"
#include "text/jinja/unicode.h"

namespace ringkeep::text {
namespace {

using Json = nlohmann::ordered_json;

jinja::Value from_json(jinja::Runtime& runtime, const Json& json, int depth) {
  using jinja::Value;
  if (depth > jinja::kMaxDataDepth) {
    throw jinja::TemplateError{
        fmt::format("data nested deeper than {} levels", jinja::kMaxDataDepth)};
  }
  switch (json.type()) {
    case Json::value_t::boolean: return Value(json.get<bool>());
    case Json::value_t::number_integer: return Value(json.get<int64_t>());
    case Json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(INT64_MAX)) return Value(static_cast<double>(number));
      return Value(static_cast<int64_t>(number));
    }
    case Json::value_t::number_float: return Value(json.get<double>());
    case Json::value_t::string: return Value::string(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(from_json(runtime, item, depth + 1));
      return Value::list(std::move(items));
    }
    case Json::value_t::object: {
      jinja::Dict dict;
      for (const auto& [key, item] : json.items()) {
        dict.set(runtime, Value::string(key), from_json(runtime, item, depth + 1));
      }
      return Value::dict(std::move(dict));
    }
    default: return Value();
  }
}

}  // namespace

struct ChatTemplate::State {
  std::string source;  // with normalized line breaks: what offsets refer to
  jinja::Body body;
};

ChatTemplate::ChatTemplate() : state_(std::make_unique<State>()) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(const std::string& source) {
  ChatTemplate result;
  State& state = *result.state_;
  constexpr size_t kMostBytes = size_t{4} << 20;
  if (source.size() > kMostBytes) {
    return input_error("chat template: {} bytes; at most {} are allowed", source.size(),
                       kMostBytes);
  }
  state.source = jinja::normalize_source(source);
  try {
    size_t bad = 0;
    if (!jinja::valid_utf8(state.source, bad)) {
      throw jinja::SyntaxError{"expected UTF-8, found another byte", static_cast<uint32_t>(bad)};
    }
    state.body = jinja::parse_template(state.source);
  } catch (const jinja::SyntaxError& error) {
    return input_error("chat template, {}: {}",
                       jinja::describe_position(state.source, error.offset), error.message);
  }
  return result;
}

const std::string& ChatTemplate::source() const { return state_->source; }

Result<std::string> ChatTemplate::render(const nlohmann::ordered_json& context) const {
  if (!context.is_object()) {
    return make_error(ErrorKind::usage, "chat template: expected an object of variables, found {}",
                      context.type_name());
  }
  try {
    jinja::Evaluator evaluator;
    for (const auto& [name, value] : context.items()) {
      evaluator.define(name, from_json(evaluator, value, 1));
    }
    return evaluator.render(state_->body);
  } catch (const jinja::TemplateError& error) {
    if (error.verbatim) return Error{ErrorKind::usage, error.message};
    return make_error(
        ErrorKind::usage, "chat template{}: {}",
        error.offset ? ", " + jinja::describe_position(state_->source, *error.offset) : "",
        error.message);
  }
}

}  // namespace ringkeep::text
