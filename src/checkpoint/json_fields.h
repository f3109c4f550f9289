// Checked access to JSON objects from untrusted files: each getter names the file, the key, and
// what was expected and found. null counts as absent, as in Python configurations.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ringkeep::checkpoint {

using Json = nlohmann::json;

// Parses a whole document; NaN and Infinity, which Python's writer emits, are read as null. Errors
// (input): `name` and the byte near which the text stops being JSON.
Result<Json> parse_json(std::string_view text, const std::string& name);

class JsonFields {
 public:
  // `where` begins every message, e.g. "config.json" or "config.json: rope_scaling".
  JsonFields(const Json& object, std::string where) : object_(&object), where_(std::move(where)) {}

  const Json& json() const { return *object_; }
  const std::string& where() const { return where_; }
  // nullptr when absent, null, or when this is no object.
  const Json* find(const char* key) const;
  bool has(const char* key) const { return find(key) != nullptr; }

  Result<std::optional<int64_t>> integer(const char* key, int64_t least, int64_t most) const;
  Result<std::optional<double>> number(const char* key, double least, double most) const;
  Result<std::optional<bool>> boolean(const char* key) const;
  Result<std::optional<std::string>> text(const char* key) const;
  Result<std::optional<JsonFields>> object(const char* key) const;
  Error wrong(const char* key, std::string_view expected) const;

 private:
  const Json* object_;
  std::string where_;
};

}  // namespace ringkeep::checkpoint
