// Unicode as Python's str sees it: code points, character classes and case mapping.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ringkeep::text::jinja {

// Reads one code point and advances `pos`. A byte that starts no valid sequence is returned as
// 0xDC00 + byte (Python's surrogateescape), so that invalid text passes through unchanged.
char32_t next_code_point(std::string_view text, size_t& pos);
void append_code_point(std::string& out, char32_t c);
std::vector<char32_t> code_points(std::string_view text);
std::string to_utf8(const std::vector<char32_t>& points, size_t begin, size_t end);
bool valid_utf8(std::string_view text, size_t& bad_offset);
bool is_ascii(std::string_view text);

bool is_space(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
bool is_word(char32_t c);  // \w of a Python pattern
bool is_printable(char32_t c);
bool is_line_break(char32_t c);  // where str.splitlines splits

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string swap_case(std::string_view text);
std::string title_words(std::string_view text);  // str.title

}  // namespace ringkeep::text::jinja
