// Structured log lines on stderr: key=value text, or one JSON object a line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ringkeep::http {

enum class LogFormat { text, json };

// Sets up the program's logger for a server. verbosity: 0 warnings, 1 info, 2 debug.
void init_server_log(LogFormat format, int verbosity);

using LogValue = std::variant<std::string, int64_t, double>;
using LogFields = std::vector<std::pair<std::string, LogValue>>;

// An event at level info.
void log_event(std::string_view event, const LogFields& fields);
void log_error(std::string_view event, const LogFields& fields);

// As it may stand in a line: `key=value`, quoted where the value has blanks, quotes or control
// characters; or a member of an object.
std::string format_fields(LogFormat format, const LogFields& fields);

}  // namespace ringkeep::http
