#include "server/http/log.h"

#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/log.h"

namespace ringkeep::http {
namespace {

LogFormat log_format = LogFormat::text;

// A JSON string in ASCII: clients choose some of these bytes, and a terminal may obey them.
std::string json_string(std::string_view text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

std::string text_value(const std::string& value) {
  const bool plain = !value.empty() && std::ranges::all_of(value, [](char c) {
    return c > ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '=';
  });
  return plain ? value : json_string(value);
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
        text.starts_with('{') ? std::string(text.substr(1)) : "\"message\":" + json_string(text);
    fmt::format_to(std::back_inserter(out), "{}}}\n", members);
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

// A file or pipe that never blocks: what a pipe has no room for is dropped, since the network
// thread must not wait for who reads it.
class PipeSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (!ready(0)) {
      ++dropped_;
      return;
    }
    if (dropped_ > 0) {
      const std::string text = fmt::format("{} log lines were dropped: nobody read them", dropped_);
      dropped_ = 0;
      put({message.time, {}, message.logger_name, spdlog::level::warn, text});
    }
    put(message);
  }
  void flush_() override {}

 private:
  static constexpr int kPatience = 100;  // ms, for the rest of a line that has begun

  // A pipe that is ready takes PIPE_BUF bytes at once.
  static bool ready(int wait_ms) {
    pollfd log{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    return ::poll(&log, 1, wait_ms) != 0;
  }
  void put(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    for (size_t at = 0; at < line.size() && ready(kPatience);) {
      const ssize_t written =
          ::write(STDERR_FILENO, line.data() + at, std::min<size_t>(PIPE_BUF, line.size() - at));
      if (written <= 0) return;
      at += static_cast<size_t>(written);
    }
  }

  int64_t dropped_ = 0;
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
  if (::isatty(STDERR_FILENO) == 0)
    spdlog::default_logger()->sinks() = {std::make_shared<PipeSink>()};
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
    out += json ? json_string(key) + ":" : key + "=";
    if (const auto* text = std::get_if<std::string>(&value))
      out += json ? json_string(*text) : text_value(*text);
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
