#include "server/http/auth.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <optional>

namespace ringkeep::http {
namespace {

// Looks at every character, wherever the first difference is.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

// RFC 4648 base64, padded or not; nothing when it is none.
std::optional<std::string> base64_decoded(std::string_view text) {
  static constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string out;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<unsigned>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xff);
  }
  return out;
}

// What follows the scheme of an Authorization header.
std::optional<std::string_view> credentials(std::string_view value, std::string_view scheme) {
  if (value.size() <= scheme.size() || value[scheme.size()] != ' ' ||
      !equal_ignoring_case(value.substr(0, scheme.size()), scheme))
    return std::nullopt;
  value.remove_prefix(scheme.size());
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

// Of "name:port" or "[address]:port".
std::string_view host_name(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

}  // namespace

void ApiKeys::add(std::string_view key) { digests_.push_back(sha256_hex(key)); }

bool ApiKeys::accepts(std::string_view key) const {
  const std::string digest = sha256_hex(key);
  bool found = false;
  for (const std::string& known : digests_) found |= equal_in_constant_time(digest, known);
  return found;
}

bool ApiKeys::accepts(const Request& request) const {
  if (const std::string* value = request.header("Authorization")) {
    if (const auto key = credentials(*value, "Bearer")) return accepts(*key);
    if (const auto pair = credentials(*value, "Basic")) {
      const auto text = base64_decoded(*pair);
      const size_t colon = text ? text->find(':') : std::string::npos;
      return colon != std::string::npos && accepts(std::string_view(*text).substr(colon + 1));
    }
  }
  const std::string* key = request.header("X-Api-Key");
  return key != nullptr && accepts(*key);
}

bool names_this_machine(const std::string& host, const std::vector<std::string>& allowed) {
  constexpr std::string_view kLocal = ".localhost";
  std::string_view name = host_name(host);
  if (name.ends_with('.')) name.remove_suffix(1);  // of the root
  boost::system::error_code no_address;
  boost::asio::ip::make_address(std::string(name), no_address);
  if (!no_address || name.find('.') == name.npos) return true;
  if (name.size() > kLocal.size() &&
      equal_ignoring_case(name.substr(name.size() - kLocal.size()), kLocal))
    return true;
  return std::ranges::any_of(allowed, [&](const std::string& origin) {
    const size_t scheme = origin.find("://");
    return origin == "*" ||
           (scheme != origin.npos &&
            equal_ignoring_case(host_name(std::string_view(origin).substr(scheme + 3)), name));
  });
}

void add_cors(const std::vector<std::string>& allowed, const Request& request, Response& response) {
  if (allowed.empty()) return;
  const bool any = std::ranges::count(allowed, "*") > 0;
  if (!any) response.headers.emplace_back("Vary", "Origin");
  const std::string* origin = request.header("Origin");
  if (origin == nullptr || (!any && std::ranges::count(allowed, *origin) == 0)) return;
  response.headers.emplace_back("Access-Control-Allow-Origin", any ? "*" : *origin);
  response.headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
}

Response options_response(const std::vector<std::string>& allowed, const Request& request,
                          const std::string& allow) {
  Response response{.status = 204, .content_type = ""};
  response.headers.emplace_back("Allow", allow);
  if (allowed.empty()) return response;
  response.headers.emplace_back("Access-Control-Allow-Methods", allow);
  // A page may send whatever headers its client library adds: none of them means more than a key.
  const std::string* headers = request.header("Access-Control-Request-Headers");
  response.headers.emplace_back("Access-Control-Allow-Headers",
                                headers != nullptr ? *headers : "Authorization, Content-Type");
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

}  // namespace ringkeep::http
