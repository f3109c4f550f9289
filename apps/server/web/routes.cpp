#include "server/web/routes.h"

#include "server/web/assets.h"

namespace ringkeep::web {
namespace {

// If-None-Match: a list of tags, weak ones alike, or *.
bool matches(std::string_view header, std::string_view etag) {
  return header == "*" || header.find(etag) != std::string_view::npos;
}

http::Response answer(const Asset& asset, const http::Request& request) {
  http::Response response{
      .content_type = std::string(asset.content_type),
      .headers = {
          {"ETag", std::string(asset.etag)},
          {"Cache-Control", "no-cache"},  // kept, but asked for again: a new program, new files
          {"Content-Security-Policy", std::string(kContentSecurityPolicy)},
          {"X-Content-Type-Options", "nosniff"},
          {"X-Frame-Options", "DENY"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Opener-Policy", "same-origin"}}};
  const std::string* known = request.header("If-None-Match");
  if (known != nullptr && matches(*known, asset.etag)) {
    response.status = 304;
  } else {
    response.body = asset.bytes;
  }
  return response;
}

}  // namespace

void add_routes(http::Router& router) {
  for (const Asset& asset : assets()) {
    router.add({.method = "GET",
                .pattern = std::string(asset.path),
                .handler =
                    [&asset](const std::shared_ptr<http::Exchange>& exchange) {
                      exchange->respond(answer(asset, exchange->request()));
                    },
                .quick = true,
                .open = true});
  }
}

}  // namespace ringkeep::web
