#include "server/http/response_head.h"

#include <fmt/format.h>

#include <ctime>
#include <random>

namespace ringkeep::http {
namespace {

std::string visible(std::string_view value) {
  std::string out;
  for (const char c : value)
    if (c == '\t' || static_cast<unsigned char>(c) >= ' ') out += c;
  return out;
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[utc.tm_wday], utc.tm_mday,
                     kMonths[utc.tm_mon], utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

}  // namespace

std::string response_head(const Response& response, const std::string& request_id, Framing framing,
                          size_t length, bool keep_alive) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nServer: ringkeep\r\nDate: {}\r\n",
                                 response.status, reason_phrase(response.status), http_date());
  const auto add = [&](std::string_view name, std::string_view value) {
    head += fmt::format("{}: {}\r\n", name, visible(value));
  };
  if (!request_id.empty()) add("X-Request-Id", request_id);
  if (!response.content_type.empty()) add("Content-Type", response.content_type);
  for (const auto& [name, value] : response.headers) add(name, value);
  const bool bodiless = response.status == 204 || response.status == 304;
  if (framing == Framing::length && !bodiless) add("Content-Length", std::to_string(length));
  if (framing == Framing::chunked) add("Transfer-Encoding", "chunked");
  add("Connection", keep_alive ? "keep-alive" : "close");
  return head + "\r\n";
}

std::string chunk(std::string_view bytes) {
  return bytes.empty() ? std::string() : fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

std::string random_request_id() {
  static thread_local std::mt19937_64 random(std::random_device{}());
  return fmt::format("req-{:016x}", random());
}

}  // namespace ringkeep::http
