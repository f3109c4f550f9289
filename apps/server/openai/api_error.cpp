#include "server/openai/api_error.h"

#include <algorithm>
#include <array>

namespace ringkeep::openai {
namespace {

const char* type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 500: return "server_error";
    case 503: return "unavailable_error";
    default: return "invalid_request_error";
  }
}

const char* code_of(int status) {
  switch (status) {
    case 401: return "invalid_api_key";
    case 404: return "not_found";
    case 405: return "method_not_allowed";
    case 413: return "body_too_large";
    case 415: return "unsupported_media_type";
    default: return "";
  }
}

// Fields that the engine's own messages begin with.
constexpr std::array kEngineFields = {
    "temperature",       "top_p",     "min_p", "repetition_penalty", "presence_penalty",
    "frequency_penalty", "logit_bias"};

// What of the request is told back to it, is a name or a value: nobody needs megabytes of it.
std::string shortened(const std::string& text) {
  constexpr size_t kMost = 2000;  // bytes
  if (text.size() <= kMost) return text;
  size_t end = kMost;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + "...";
}

}  // namespace

ApiError bad_field(std::string param, std::string message, std::string code) {
  return {.status = 400,
          .message = std::move(message),
          .param = std::move(param),
          .code = std::move(code)};
}

ApiError from_error(const Error& error, const std::string& param) {
  ApiError result{.message = error.message, .param = param};
  switch (error.kind) {
    case ErrorKind::usage:
    case ErrorKind::refused: result.code = "invalid_value"; break;
    case ErrorKind::input: result.code = "context_length_exceeded"; break;
    case ErrorKind::busy:
      result.status = 429;
      result.code = "queue_full";
      result.param.clear();
      break;
    default:
      result.status = 500;
      result.code = "engine_error";
      result.param.clear();
  }
  const std::string name = error.message.substr(0, error.message.find(':'));
  if (result.status == 400 && std::ranges::count(kEngineFields, name) > 0) result.param = name;
  return result;
}

Json error_json(const ApiError& error) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? Json() : Json(shortened(text));
  };
  return Json{{"error",
               {{"message", shortened(error.message)},
                {"type", type_of(error.status)},
                {"param", or_null(error.param)},
                {"code", or_null(error.code)}}}};
}

http::Response error_response(const ApiError& error) {
  http::Response response{.status = error.status, .body = dump(error_json(error))};
  if (error.retry_after > 0)
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after));
  return response;
}

http::Response error_response(int status, const std::string& message) {
  return error_response({.status = status, .message = message, .code = code_of(status)});
}

}  // namespace ringkeep::openai
