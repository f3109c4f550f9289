// The files of the web page, carried by the program (cmake/embed_files.cmake).
#pragma once

#include <span>
#include <string_view>

namespace ringkeep::web {

struct Asset {
  std::string_view path;  // "/" for index.html, "/app.js", ...
  std::string_view content_type;
  std::string_view bytes;
  std::string_view etag;  // of the bytes, with its quotes
};

std::span<const Asset> assets();
// Null: there is no such file.
const Asset* lookup(std::string_view path);

// For every file: nothing but this server's own files runs or is fetched, and no other page may
// frame this one.
inline constexpr std::string_view kContentSecurityPolicy =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src "
    "'none'";

}  // namespace ringkeep::web
