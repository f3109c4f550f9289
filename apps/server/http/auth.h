// Who may use the server: API keys, and the origins of web pages that may call it (CORS).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "server/http/message.h"

namespace ringkeep::http {

// Keeps digests only, so that no key can be logged and every comparison takes the same time.
class ApiKeys {
 public:
  void add(std::string_view key);
  bool empty() const { return digests_.empty(); }
  bool accepts(std::string_view key) const;
  // The key of a request: "Authorization: Bearer KEY", "X-Api-Key: KEY", or the password of
  // "Authorization: Basic", which is what a browser asks its user for.
  bool accepts(const Request& request) const;

 private:
  std::vector<std::string> digests_;
};

// Whether a Host header names this machine (a plain name without dots, localhost, an address) or a
// host of `allowed` origins. A page whose own name was made to lead here (DNS rebinding) names
// another.
bool names_this_machine(const std::string& host, const std::vector<std::string>& allowed);

// Adds Access-Control-Allow-Origin and what goes with it when the request's origin is one of those
// allowed ("*": every one). Without allowed origins: nothing.
void add_cors(const std::vector<std::string>& allowed, const Request& request, Response& response);

// Answer to OPTIONS on a path whose methods are `allow`.
Response options_response(const std::vector<std::string>& allowed, const Request& request,
                          const std::string& allow);

}  // namespace ringkeep::http
