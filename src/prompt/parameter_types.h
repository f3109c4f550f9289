// The types that a schema leaves to a tool's parameter: how text that names no type is read.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace ringkeep::prompt {

enum ParameterType : uint8_t {
  kParameterNull = 1,
  kParameterBoolean = 2,
  kParameterInteger = 4,
  kParameterNumber = 8,  // a number is an integer, too, where it is one
  kParameterString = 16,
  kParameterArray = 32,
  kParameterObject = 64,
  kParameterAny = 127,
};

// `parameters`: the schema of all parameters, of any kind. The types that `type`, `enum`, `const`,
// `anyOf`, `oneOf`, `allOf` and `$ref` (into the schema) leave to the parameter, or else to
// additional ones; none where the schema does not speak of it. Looks at a bounded number of
// schemas; what is beyond leaves all types.
std::optional<uint8_t> parameter_types(const nlohmann::ordered_json& parameters,
                                       const std::string& name);

// Of a whole value: one of the types.
uint8_t parameter_type(const nlohmann::ordered_json& value);

}  // namespace ringkeep::prompt
