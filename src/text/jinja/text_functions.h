// Functions on text that methods and filters share, with the meaning of Python's str methods.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/runtime.h"

namespace ringkeep::text::jinja {

enum class Side { left, right, both };
// `characters`: what to remove; nothing given: whitespace.
std::string strip(std::string_view text, std::optional<std::string_view> characters, Side side);
// count < 0: all of them.
std::string replace_text(Runtime& runtime, std::string_view text, std::string_view from,
                         std::string_view to, int64_t count);
enum class Align { left, right, center };
std::string pad(Runtime& runtime, const Value& text, int64_t width, char32_t fill, Align align);
std::optional<std::string_view> optional_text(const Value* value, std::string_view what);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends);

// int(text, base) and float(text); nothing when the text is not a number that fits.
std::optional<int64_t> parse_int(std::string_view text, int base);
std::optional<double> parse_double(std::string_view text);

}  // namespace ringkeep::text::jinja
