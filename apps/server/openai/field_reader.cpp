#include <cmath>

#include "server/openai/fields.h"

namespace ringkeep::openai {

std::optional<int64_t> whole_number(const Json& value, int64_t least, int64_t most) {
  int64_t number = 0;
  if (value.is_number_unsigned()) {
    const uint64_t large = value.get<uint64_t>();
    if (large > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    number = static_cast<int64_t>(large);
  } else if (value.is_number_integer()) {
    number = value.get<int64_t>();
  } else if (value.is_number_float()) {
    const double real = value.get<double>();
    if (!(std::abs(real) <= 9007199254740992.0) || real != std::floor(real)) return std::nullopt;
    number = static_cast<int64_t>(real);
  } else {
    return std::nullopt;
  }
  return number >= least && number <= most ? std::optional(number) : std::nullopt;
}

FieldReader::FieldReader(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {}

void FieldReader::fail(const std::string& param, const std::string& message,
                       const std::string& code) {
  if (!error_) error_ = bad_field(path_ + param, path_ + param + ": " + message, code);
}

const Json* FieldReader::find(const Names& names, std::string& name) {
  const Json* found = nullptr;
  for (const std::string& each : names) {
    known_.insert(each);
    const auto member = object_.find(each);
    if (member == object_.end() || member->is_null()) continue;
    if (found != nullptr && *found != *member) {
      fail(each, fmt::format("it means the same as {}, which has another value", name));
      return nullptr;
    }
    found = &*member;
    name = each;
  }
  return found;
}

void FieldReader::number(const Names& names, float& value, double least, double most, const char*) {
  std::string name;
  const Json* found = find(names, name);
  if (found == nullptr) return;
  // Written so that no NaN passes.
  if (!found->is_number() || !(found->get<double>() >= least && found->get<double>() <= most))
    return fail(name, fmt::format("expected a number from {} to {}, found {}", least, most,
                                  describe(*found)));
  value = found->get<float>();
}

void FieldReader::integer(const Names& names, int64_t& value, int64_t least, int64_t most,
                          const char*) {
  std::string name;
  const Json* found = find(names, name);
  if (found == nullptr) return;
  const auto number = whole_number(*found, least, most);
  if (!number)
    return fail(name, fmt::format("expected a whole number from {} to {}, found {}", least, most,
                                  describe(*found)));
  value = *number;
}

void FieldReader::boolean(const Names& names, bool& value, const char*) {
  std::string name;
  const Json* found = find(names, name);
  if (found == nullptr) return;
  if (!found->is_boolean())
    return fail(name, fmt::format("expected true or false, found {}", describe(*found)));
  value = found->get<bool>();
}

void FieldReader::text(const Names& names, std::string& value, const char*) {
  std::string name;
  const Json* found = find(names, name);
  if (found == nullptr) return;
  if (!found->is_string())
    return fail(name, fmt::format("expected a string, found {}", describe(*found)));
  value = found->get<std::string>();
}

void FieldReader::other(const Names& names, const Json&,
                        const std::function<void(const Json&)>& read, const char*) {
  std::string name;
  const Json* found = find(names, name);
  if (found != nullptr && !error_) read(*found);
}

void FieldReader::required(const std::string& name) {
  const auto member = object_.find(name);
  if (member == object_.end() || member->is_null()) fail(name, "it is required", "missing_field");
}

void FieldReader::without_effect(const Names& names) { known_.insert(names.begin(), names.end()); }

void FieldReader::only(const std::string& name, const std::vector<Json>& allowed, const char* why) {
  std::string used;
  const Json* found = find({name}, used);
  if (found == nullptr) return;
  for (const Json& value : allowed)
    if (value == *found) return;
  fail(name, fmt::format("{}, found {}", why, describe(*found)), "unsupported_value");
}

void FieldReader::refused(const Names& names, const char* why) {
  std::string name;
  for (const std::string& each : names)
    if (find({each}, name) != nullptr) fail(each, why, "unsupported_parameter");
}

std::optional<ApiError> FieldReader::finish() {
  for (const auto& [name, value] : object_.items())
    if (!known_.contains(name))
      fail(name.empty() ? "\"\"" : name, "there is no such field", "unknown_parameter");
  return std::move(error_);
}

}  // namespace ringkeep::openai
