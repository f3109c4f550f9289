#include "server/http/router.h"

#include <algorithm>
#include <optional>

namespace ringkeep::http {
namespace {

using Parameters = std::map<std::string, std::string>;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
                        hex_digit(text[i + 2]) >= 0;
    out +=
        escape ? static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])) : text[i];
    if (escape) i += 2;
  }
  return out;
}

std::optional<Parameters> match(std::string_view pattern, std::string_view path) {
  const size_t open = pattern.find('{');
  if (open == std::string_view::npos)
    return path == pattern ? std::optional(Parameters()) : std::nullopt;
  if (path.size() <= open || !path.starts_with(pattern.substr(0, open))) return std::nullopt;
  const size_t close = pattern.find('}', open);
  return Parameters{{std::string(pattern.substr(open + 1, close - open - 1)),
                     percent_decoded(path.substr(open))}};
}

}  // namespace

std::string Router::allow(std::string_view path) const {
  std::vector<std::string> methods;
  for (const Route& route : routes_) {
    if (!match(route.pattern, path)) continue;
    methods.push_back(route.method);
    if (route.method == "GET") methods.push_back("HEAD");
  }
  if (methods.empty()) return {};
  methods.push_back("OPTIONS");
  std::string list;
  for (const std::string& method : methods) list += (list.empty() ? "" : ", ") + method;
  return list;
}

std::string Router::advice(std::string_view path) const {
  if (const auto found = advice_.find(path); found != advice_.end()) return found->second;
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (path.size() < 2) return {};
  for (const Route& route : routes_) {
    const std::string_view pattern = route.pattern;
    if (pattern.size() < 2 || pattern.find('{') != std::string_view::npos) continue;
    if (pattern.ends_with(path) || path.ends_with(pattern)) return "but at " + route.pattern;
  }
  return {};
}

Router::Match Router::find(std::string_view method, std::string_view path) const {
  for (const Route& route : routes_) {
    if (method != route.method && !(method == "HEAD" && route.method == "GET")) continue;
    if (auto parameters = match(route.pattern, path)) return {&route, std::move(*parameters), {}};
  }
  return {nullptr, {}, allow(path)};
}

}  // namespace ringkeep::http
