// Errors as OpenAI's clients expect them: {"error": {message, type, param, code}}.
#pragma once

#include <string>

#include "base/result.h"
#include "server/http/message.h"
#include "server/openai/json.h"

namespace ringkeep::openai {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param;    // the field, with its path; empty: null
  std::string code;     // empty: null
  int retry_after = 0;  // seconds; 0: no header
};

// A field of the request.
ApiError bad_field(std::string param, std::string message, std::string code = "invalid_value");
// Of an error of the engine or of a room below: usage and input are the client's (400), busy is
// 429, anything else the server's (500). `param` unless the message begins with a field's name.
ApiError from_error(const Error& error, const std::string& param);

Json error_json(const ApiError& error);
http::Response error_response(const ApiError& error);
// Of an HTTP fault, by its status.
http::Response error_response(int status, const std::string& message);

}  // namespace ringkeep::openai
