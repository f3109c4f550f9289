// HTTP messages as plain structs: what handlers see of a request and say in answer.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringkeep::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

// ASCII letters alike.
bool equal_ignoring_case(std::string_view a, std::string_view b);
// Value of the first header of that name, or null.
const std::string* find_header(const Headers& headers, std::string_view name);

struct Request {
  std::string method;  // as sent: methods are case-sensitive
  std::string target;  // as sent
  std::string path;    // before '?'
  std::string query;   // after '?'
  Headers headers;
  std::string body;
  std::string id;                                 // X-Request-Id, the client's or made here
  std::string remote;                             // address of the peer
  std::map<std::string, std::string> parameters;  // {name} of the route's pattern

  const std::string* header(std::string_view name) const { return find_header(headers, name); }
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";  // empty: no header
  Headers headers;                                // further ones
  std::string body;
};

const char* reason_phrase(int status);  // "OK", "Not Found", ...

// The media type of a Content-Type value without its parameters, in lower case.
std::string media_type(std::string_view content_type);

// An id that a client may choose: 1 to 128 printable ASCII characters without spaces.
bool sane_request_id(std::string_view id);

}  // namespace ringkeep::http
