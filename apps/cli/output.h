// Small helpers for what commands print and read.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ringkeep::cli {

using Json = nlohmann::ordered_json;

// One object on one line of stdout, in the order its keys were set. Bytes that are no UTF-8 become
// U+FFFD.
void print_json(const Json& value);

std::string human_bytes(double bytes);  // "512 B", "1.5 MiB"

// A rate that was not measured (no time passed) is null in JSON and "-" in text.
Json rate_json(double count, double seconds);
std::string rate_text(double count, double seconds);

// A file with these bytes; it appears under its name only once it is complete. Errors: runtime.
Status write_file(const std::string& path, std::string_view bytes);

// All of standard input.
Result<std::string> read_stdin();

}  // namespace ringkeep::cli
