// JSON from outside, read strictly, and JSON for the outside, always valid.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

#include "base/result.h"

namespace ringkeep::openai {

using Json = nlohmann::ordered_json;

inline constexpr int kMaxJsonDepth = 64;

// Errors (usage): no JSON (NaN and Infinity are none), invalid UTF-8, a number that no double
// holds, a key twice in an object, more than `max_depth` arrays and objects inside each other.
Result<Json> parse_json(std::string_view text, int max_depth = kMaxJsonDepth);

// The arguments of a tool call as a model wrote them, which need not be quite JSON: of a key that
// comes twice the last value counts, and half of a surrogate pair becomes U+FFFD. Other errors as
// above, at the depth that replies may have.
Result<Json> parse_arguments(std::string_view text);

// On one line. Bytes that are no UTF-8 become U+FFFD.
std::string dump(const Json& value);

// "null", "a boolean", "a number", ... with a short value, for messages.
std::string describe(const Json& value);

}  // namespace ringkeep::openai
