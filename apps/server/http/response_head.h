// The bytes of a response's head, and of the chunks of a streamed body (RFC 9112).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/http/message.h"

namespace ringkeep::http {

enum class Framing {
  length,     // Content-Length
  chunked,    // Transfer-Encoding: chunked
  until_end,  // the end of the connection ends the body (HTTP/1.0)
};

// `length`: of the body, also where it is not sent (HEAD). Header values lose what is no visible
// character, so that none can begin a header of its own.
std::string response_head(const Response& response, const std::string& request_id, Framing framing,
                          size_t length, bool keep_alive);

std::string chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// "req-" and 16 random hexadecimal digits.
std::string random_request_id();

}  // namespace ringkeep::http
