#include "server/http/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>
#include <memory>

#include "base/log.h"

namespace ringkeep::http {
namespace {

LogFormat log_format = LogFormat::text;

// A JSON string. Bytes that are not ASCII stay as they are in text that is UTF-8 already.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string text_value(const std::string& value) {
  const bool plain = !value.empty() && std::ranges::all_of(value, [](char c) {
    return c > ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '=';
  });
  return plain ? value : quoted(value);
}

// One object a line. A message that begins with '{' is a list of members already.
class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    const auto since = message.time.time_since_epoch();
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
    const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
    std::tm utc{};
    ::gmtime_r(&seconds, &utc);
    char stamp[32];
    std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    const auto level = spdlog::level::to_string_view(message.level);
    fmt::format_to(std::back_inserter(out), R"({{"time":"{}.{:03}Z","level":"{}",)", stamp,
                   ms % 1000, std::string_view(level.data(), level.size()));
    const std::string members =
        text.starts_with('{') ? std::string(text.substr(1)) : "\"message\":" + quoted(text);
    fmt::format_to(std::back_inserter(out), "{}}}\n", members);
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

void write(spdlog::level::level_enum level, std::string_view event, const LogFields& fields) {
  if (!spdlog::should_log(level)) return;
  if (log_format == LogFormat::json) {
    LogFields all = {{"event", std::string(event)}};
    all.insert(all.end(), fields.begin(), fields.end());
    spdlog::log(level, "{{{}", format_fields(log_format, all));
  } else {
    spdlog::log(level, "{} {}", event, format_fields(log_format, fields));
  }
}

}  // namespace

void init_server_log(LogFormat format, int verbosity) {
  log_format = format;
  init_log(verbosity);
  if (format == LogFormat::json)
    spdlog::set_formatter(std::make_unique<JsonFormatter>());
  else
    spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$: %v");
  spdlog::flush_on(spdlog::level::info);
}

std::string format_fields(LogFormat format, const LogFields& fields) {
  const bool json = format == LogFormat::json;
  std::string out;
  for (const auto& [key, value] : fields) {
    if (!out.empty()) out += json ? "," : " ";
    out += json ? quoted(key) + ":" : key + "=";
    if (const auto* text = std::get_if<std::string>(&value))
      out += json ? quoted(*text) : text_value(*text);
    else if (const auto* whole = std::get_if<int64_t>(&value))
      out += fmt::format("{}", *whole);
    else
      out += fmt::format("{:.6g}", std::get<double>(value));
  }
  return out;
}

void log_event(std::string_view event, const LogFields& fields) {
  write(spdlog::level::info, event, fields);
}

void log_error(std::string_view event, const LogFields& fields) {
  write(spdlog::level::err, event, fields);
}

}  // namespace ringkeep::http
