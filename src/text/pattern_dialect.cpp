#include "text/pattern_dialect.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

namespace ringkeep::text {
namespace {

// Inside a class.
constexpr std::string_view kWhiteSpace = R"(\t-\r\x{85}\p{Z})";
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";

bool is_script(std::string_view name) {
  const auto letter = [](char c) {
    return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  if (name.size() < 3 || !std::all_of(name.begin(), name.end(), letter)) return false;
  const std::string pattern = "\\p{sc:" + std::string(name) + "}";
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF, &error, &offset, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

// The escape at the beginning of `rest` (a backslash and at least one more byte): appends its
// translation and returns how many bytes it was.
size_t translate_escape(std::string_view rest, bool in_class, std::string& out) {
  const char kind = rest[1];
  if (kind == 's' || kind == 'w' || ((kind == 'S' || kind == 'W') && !in_class)) {
    const std::string_view set = kind == 's' || kind == 'S' ? kWhiteSpace : kWord;
    if (in_class) {
      out += set;
    } else {
      out.append(kind == 's' || kind == 'w' ? "[" : "[^").append(set).append("]");
    }
    return 2;
  }
  const size_t close = rest.find('}');
  if ((kind == 'p' || kind == 'P') && rest.substr(2).starts_with('{') &&
      close != std::string_view::npos) {
    std::string_view name = rest.substr(3, close - 3);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    if (is_script(name)) {
      out.append({'\\', kind, '{'}).append(negated ? "^sc:" : "sc:").append(name).append("}");
      return close + 1;
    }
  }
  out.append(rest.substr(0, 2));
  return 2;
}

}  // namespace

Result<std::string> to_pcre2(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t at = 0; at < pattern.size();) {
    const std::string_view rest = pattern.substr(at);
    if (rest[0] == '\\' && rest.size() > 1) {
      at += translate_escape(rest, in_class, out);
      continue;
    }
    size_t size = 1;
    if (!in_class && rest[0] == '[') {
      in_class = true;
      size = rest.starts_with("[^]") ? 3 : rest.starts_with("[^") || rest.starts_with("[]") ? 2 : 1;
    } else if (in_class && rest.starts_with("[:")) {
      const size_t close = rest.find(":]");
      size = close == std::string_view::npos ? 2 : close + 2;
    } else if (in_class && (rest[0] == '[' || rest.starts_with("&&"))) {
      return input_error(
          "tokenizer: pre-tokenizer pattern '{}': expected a plain character class, found '{}' "
          "inside one (at byte {})",
          pattern, rest[0] == '[' ? "[" : "&&", at);
    } else if (in_class && rest[0] == ']') {
      in_class = false;
    }
    out += rest.substr(0, size);
    at += size;
  }
  return out;
}

}  // namespace ringkeep::text
