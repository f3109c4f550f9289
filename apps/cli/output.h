// Small helpers for what commands print and read.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace ringkeep::cli {

using Json = nlohmann::ordered_json;

// One object on one line of stdout, in the order its keys were set. Bytes that are no UTF-8 become
// U+FFFD.
void print_json(const Json& value);

// Writes text to stdout now. Errors (runtime): stdout cannot be written to.
Status print_now(std::string_view text);

// A line for the reader on stderr. That stderr cannot be written to changes nothing else.
template <typename... Args>
void print_note(fmt::format_string<Args...> format, Args&&... args) {
  std::fputs((fmt::format(format, std::forward<Args>(args)...) + "\n").c_str(), stderr);
}

std::string human_bytes(double bytes);  // "512 B", "1.5 MiB"

// A rate that was not measured (no time passed) is null in JSON and "-" in text.
Json rate_json(double count, double seconds);
std::string rate_text(double count, double seconds);

// A file with these bytes; it appears under its name only once it is complete. Errors: runtime.
Status write_file(const std::string& path, std::string_view bytes);

// All of standard input, at most `limit` bytes.
Result<std::string> read_stdin(size_t limit);

}  // namespace ringkeep::cli
