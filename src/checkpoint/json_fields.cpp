#include "checkpoint/json_fields.h"

namespace ringkeep::checkpoint {

namespace {

// Replaces NaN, Infinity and -Infinity outside strings by null.
std::string without_non_finite(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    if (in_string) {
      if (text[i] == '\\' && i + 1 < text.size())
        result += text[i++];
      else if (text[i] == '"')
        in_string = false;
      result += text[i++];
      continue;
    }
    size_t skipped = 0;
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"})
      if (text.substr(i, word.size()) == word) skipped = word.size();
    if (skipped > 0) {
      result += "null";
      i += skipped;
      continue;
    }
    in_string = text[i] == '"';
    result += text[i++];
  }
  return result;
}

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& name) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_discarded()) return json;
  try {
    return Json::parse(without_non_finite(text));
  } catch (const Json::parse_error& error) {
    return input_error("{}: not valid JSON near byte {}", name, error.byte);
  } catch (const Json::exception&) {  // a number out of range
    return input_error("{}: not valid JSON", name);
  }
}

const Json* JsonFields::find(const char* key) const {
  if (!object_->is_object()) return nullptr;
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

Error JsonFields::wrong(const char* key, std::string_view expected) const {
  const Json* value = find(key);
  std::string found = value == nullptr ? "nothing" : value->type_name();
  if (value != nullptr && (value->is_number() || value->is_boolean())) found = value->dump();
  if (value != nullptr && value->is_string())
    found = fmt::format("\"{}\"", value->get_ref<const std::string&>().substr(0, 80));
  return input_error("{}: {}: expected {}, found {}", where_, key, expected, found);
}

Result<std::optional<int64_t>> JsonFields::integer(const char* key, int64_t least,
                                                   int64_t most) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<int64_t>();
  const auto expected = [&] { return fmt::format("an integer from {} to {}", least, most); };
  if (!value->is_number_integer()) return wrong(key, expected());
  if (value->is_number_unsigned() &&
      value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return wrong(key, expected());
  const auto number = value->get<int64_t>();
  if (number < least || number > most) return wrong(key, expected());
  return std::optional<int64_t>(number);
}

Result<std::optional<double>> JsonFields::number(const char* key, double least, double most) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<double>();
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (number >= least && number <= most) return std::optional<double>(number);
  }
  return wrong(key, fmt::format("a number from {} to {}", least, most));
}

Result<std::optional<bool>> JsonFields::boolean(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return wrong(key, "true or false");
  return std::optional<bool>(value->get<bool>());
}

Result<std::optional<std::string>> JsonFields::text(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong(key, "a string");
  return std::optional<std::string>(value->get<std::string>());
}

Result<std::optional<JsonFields>> JsonFields::object(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<JsonFields>();
  if (!value->is_object()) return wrong(key, "an object");
  return std::optional<JsonFields>(JsonFields(*value, fmt::format("{}: {}", where_, key)));
}

}  // namespace ringkeep::checkpoint
