#include "server/http/message.h"

#include <algorithm>

namespace ringkeep::http {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

const std::string* find_header(const Headers& headers, std::string_view name) {
  for (const auto& [key, value] : headers)
    if (equal_ignoring_case(key, name)) return &value;
  return nullptr;
}

const char* reason_phrase(int status) {
  switch (status) {
    case 100: return "Continue";
    case 200: return "OK";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Status";
  }
}

std::string media_type(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!content_type.empty() && blank(content_type.front())) content_type.remove_prefix(1);
  while (!content_type.empty() && blank(content_type.back())) content_type.remove_suffix(1);
  std::string type(content_type);
  std::ranges::transform(type, type.begin(), lower);
  return type;
}

bool sane_request_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 &&
         std::ranges::all_of(id, [](char c) { return c > ' ' && c < '\x7f'; });
}

}  // namespace ringkeep::http
