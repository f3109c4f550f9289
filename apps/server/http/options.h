// What a server is told: limits, time-outs, who may use it, and what to call.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/http/auth.h"
#include "server/http/message.h"
#include "server/http/router.h"

namespace ringkeep::http {

struct Limits {
  size_t header_bytes = size_t{32} << 10;
  size_t header_count = 100;
  size_t target_bytes = size_t{8} << 10;
  size_t body_bytes = size_t{16} << 20;
  size_t send_buffer = size_t{8} << 20;  // bytes of an answer that the client has not read yet
  int64_t connections = 512;
  int64_t requests_per_connection = 1000;
  // Seconds.
  double idle_timeout = 75;    // between requests of a connection
  double header_timeout = 10;  // for a whole header
  double body_timeout = 60;    // for a whole body
  double write_timeout = 30;   // without the client reading anything
};

// What a request came to, for logs and metrics.
struct Served {
  const Request* request = nullptr;
  const Route* route = nullptr;  // null: none was found
  int status = 0;                // 0: the client went before there was one
  bool gone = false;             // the client went before it had the whole answer
  uint64_t bytes = 0;            // of the answer, sent
  double seconds = 0.0;
  std::vector<std::pair<std::string, std::string>> notes;
};

struct Options {
  std::vector<std::string> cors_origins;  // empty: no CORS headers
  ApiKeys keys;                           // empty: everybody
  bool this_machine_only = false;         // refuse what names_this_machine() does not know
  Limits limits;
  // An answer that says what was wrong with a request.
  std::function<Response(int status, const std::string& message)> error;
  // Asked once the header is there and the route is known, before the body is read: an answer in
  // place of the handler's.
  std::function<std::optional<Response>(const Request&, const Route&)> gate;
  std::function<void(const Served&)> on_served;  // network thread
};

}  // namespace ringkeep::http
