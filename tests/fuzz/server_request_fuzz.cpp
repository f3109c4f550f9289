// Bodies of requests: whatever the bytes, they are read or refused with an error that is valid JSON
// and names something.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "server/openai/request.h"

namespace {

using namespace ringkeep;
using namespace ringkeep::openai;

template <typename T>
void read(const Json& body) {
  static const Defaults defaults{.vocab_size = 1000};
  T request;
  FieldReader reader(body);
  visit(reader, request, defaults);
  const auto error = reader.finish();
  if (error) {
    const http::Response response = error_response(*error);
    const auto told = parse_json(response.body);
    RK_CHECK(told.ok() && !error->param.empty(), "{}", response.body);
    return;
  }
  RK_CHECK(request.n >= 1 && request.n <= kMaxChoices);
  RK_CHECK(engine::validate(request.sampling, defaults.vocab_size).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto body = parse_json({reinterpret_cast<const char*>(data), size});
  if (!body.ok()) {
    RK_CHECK(parse_json(error_response({.message = body.error().message}).body).ok());
    return 0;
  }
  RK_CHECK(parse_json(dump(*body)).ok());
  if (!body->is_object()) return 0;
  read<ChatFields>(*body);
  read<CompletionFields>(*body);
  return 0;
}
