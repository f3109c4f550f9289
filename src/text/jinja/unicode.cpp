#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>

namespace ringkeep::text::jinja {
namespace {

struct Special {
  char32_t from;
  const char* to;
};

// The upper-case mappings of one character to several (Unicode SpecialCasing, unconditional).
constexpr Special kSpecialUpper[] = {
    {0xDF, "SS"},    {0x149, "ʼN"},  {0x1F0, "J̌"},   {0x390, "Ϊ́"},   {0x3B0, "Ϋ́"},
    {0x587, "ԵՒ"},   {0x1E96, "H̱"},  {0x1E97, "T̈"},  {0x1E98, "W̊"},  {0x1E99, "Y̊"},
    {0x1E9A, "Aʾ"},  {0xFB00, "FF"}, {0xFB01, "FI"}, {0xFB02, "FL"}, {0xFB03, "FFI"},
    {0xFB04, "FFL"}, {0xFB05, "ST"}, {0xFB06, "ST"}, {0xFB13, "ՄՆ"}, {0xFB14, "ՄԵ"},
    {0xFB15, "ՄԻ"},  {0xFB16, "ՎՆ"}, {0xFB17, "ՄԽ"},
};

bool is_escaped_byte(char32_t c) { return c >= 0xDC80 && c <= 0xDCFF; }

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

void append_upper(std::string& out, char32_t c) {
  if (c >= 0x80) {
    for (const Special& s : kSpecialUpper) {
      if (s.from == c) {
        out += s.to;
        return;
      }
    }
    if (is_escaped_byte(c)) return append_code_point(out, c);
  }
  append_code_point(out, static_cast<char32_t>(utf8proc_toupper(static_cast<int32_t>(c))));
}

void append_title(std::string& out, char32_t c) {
  if (c == 0xDF) {
    out += "Ss";
  } else if (is_escaped_byte(c)) {
    append_code_point(out, c);
  } else {
    append_code_point(out, static_cast<char32_t>(utf8proc_totitle(static_cast<int32_t>(c))));
  }
}

bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

// A capital sigma that ends a word has its own small letter.
bool final_sigma(const std::vector<char32_t>& points, size_t i) {
  const auto ignorable = [](char32_t c) {
    const auto k = category(c);
    return c == '\'' || c == '.' || c == ':' || k == UTF8PROC_CATEGORY_MN ||
           k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_LM;
  };
  size_t before = i;
  while (before > 0 && ignorable(points[before - 1])) --before;
  size_t after = i + 1;
  while (after < points.size() && ignorable(points[after])) ++after;
  return before > 0 && is_cased(points[before - 1]) &&
         !(after < points.size() && is_cased(points[after]));
}

void append_lower(std::string& out, const std::vector<char32_t>& points, size_t i) {
  const char32_t c = points[i];
  if (c == 0x130) {
    out += "i\xCC\x87";
  } else if (c == 0x3A3) {
    append_code_point(out, final_sigma(points, i) ? 0x3C2 : 0x3C3);
  } else if (is_escaped_byte(c)) {
    append_code_point(out, c);
  } else {
    append_code_point(out, static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(c))));
  }
}

}  // namespace

char32_t next_code_point(std::string_view text, size_t& pos) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(pos);
  if (first < 0x80) {
    ++pos;
    return first;
  }
  const int length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  char32_t c = first & (0x7F >> length);
  bool good = first >= 0xC2 && first <= 0xF4 && pos + length <= text.size();
  for (int i = 1; good && i < length; ++i) {
    good = (byte(pos + i) & 0xC0) == 0x80;
    c = (c << 6) | (byte(pos + i) & 0x3F);
  }
  const char32_t least = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
  if (!good || c < least || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
    ++pos;
    return 0xDC00 + first;
  }
  pos += static_cast<size_t>(length);
  return c;
}

void append_code_point(std::string& out, char32_t c) {
  if (is_escaped_byte(c)) {
    out += static_cast<char>(c - 0xDC00);
  } else if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

std::vector<char32_t> code_points(std::string_view text) {
  std::vector<char32_t> points;
  points.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) points.push_back(next_code_point(text, pos));
  return points;
}

std::string to_utf8(const std::vector<char32_t>& points, size_t begin, size_t end) {
  std::string out;
  for (size_t i = begin; i < end; ++i) append_code_point(out, points[i]);
  return out;
}

bool valid_utf8(std::string_view text, size_t& bad_offset) {
  for (size_t pos = 0; pos < text.size();) {
    bad_offset = pos;
    if (is_escaped_byte(next_code_point(text, pos))) return false;
  }
  return true;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_alpha(char32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
         (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
         (c >= 0x2488 && c <= 0x2490);
}

bool is_numeric(char32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA; }
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
bool is_word(char32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  if (is_escaped_byte(c)) return false;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

std::string to_upper(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) append_upper(out, next_code_point(text, pos));
  return out;
}

std::string to_lower(std::string_view text) {
  const std::vector<char32_t> points = code_points(text);
  std::string out;
  for (size_t i = 0; i < points.size(); ++i) append_lower(out, points, i);
  return out;
}

std::string capitalize(std::string_view text) {
  const std::vector<char32_t> points = code_points(text);
  std::string out;
  for (size_t i = 0; i < points.size(); ++i) {
    if (i == 0) {
      append_title(out, points[i]);
    } else {
      append_lower(out, points, i);
    }
  }
  return out;
}

std::string swap_case(std::string_view text) {
  const std::vector<char32_t> points = code_points(text);
  std::string out;
  for (size_t i = 0; i < points.size(); ++i) {
    if (is_upper(points[i])) {
      append_lower(out, points, i);
    } else if (is_lower(points[i])) {
      append_upper(out, points[i]);
    } else {
      append_code_point(out, points[i]);
    }
  }
  return out;
}

std::string title_words(std::string_view text) {
  const std::vector<char32_t> points = code_points(text);
  std::string out;
  bool inside = false;
  for (size_t i = 0; i < points.size(); ++i) {
    if (inside) {
      append_lower(out, points, i);
    } else {
      append_title(out, points[i]);
    }
    inside = is_cased(points[i]);
  }
  return out;
}

}  // namespace ringkeep::text::jinja
