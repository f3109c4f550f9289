// Filters on strings and numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_functions.h"
#include "text/jinja/unicode.h"

namespace ringkeep::text::jinja {

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\'': out += "&#39;"; break;
      case '"': out += "&#34;"; break;
      default: out += c;
    }
  }
  return out;
}

namespace {

template <std::string (*convert)(std::string_view)>
Value convert_text(Runtime& runtime, const Value& value, const Arguments& arguments) {
  bind(arguments, "this filter", {});
  return runtime.string(convert(to_string(runtime, value)), value.is_markup());
}

// Words begin after a space, a dash or an opening bracket.
std::string title_of(std::string_view text) {
  std::string out;
  const auto separates = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const bool separator = separates(next_code_point(text, pos));
    const size_t after_first = pos;
    for (size_t next = pos; pos < text.size(); pos = next) {
      if (separates(next_code_point(text, next)) != separator) break;
    }
    out += to_upper(text.substr(begin, after_first - begin));
    out += to_lower(text.substr(after_first, pos - after_first));
  }
  return out;
}

Value filter_trim(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "trim", {"chars"});
  return runtime.string(
      strip(to_string(runtime, value), optional_text(a[0], "trim: chars"), Side::both),
      value.is_markup());
}

Value filter_string(Runtime& runtime, const Value& value, const Arguments&) {
  return value.is_string() ? value : runtime.string(to_string(runtime, value));
}

Value filter_safe(Runtime& runtime, const Value& value, const Arguments&) {
  return runtime.string(to_string(runtime, value), true);
}

Value filter_escape(Runtime& runtime, const Value& value, const Arguments&) {
  if (value.is_markup()) return value;
  return runtime.string(escape_html(to_string(runtime, value)), true);
}

Value filter_forceescape(Runtime& runtime, const Value& value, const Arguments&) {
  return runtime.string(escape_html(to_string(runtime, value)), true);
}

Value filter_replace(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "replace", {"old", "new", "count"}, 2);
  const int64_t count = a[2] == nullptr || a[2]->is_none() ? -1 : to_int(*a[2], "replace: count");
  return runtime.string(replace_text(runtime, to_string(runtime, value), to_string(runtime, *a[0]),
                                     to_string(runtime, *a[1]), count));
}

Value filter_center(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "center", {"width"});
  const Value text = filter_string(runtime, value, {});
  const int64_t width = a[0] == nullptr ? 80 : to_int(*a[0], "center: width");
  return runtime.string(pad(runtime, text, width, ' ', Align::center), value.is_markup());
}

Value filter_indent(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "indent", {"width", "first", "blank"});
  std::string indention(4, ' ');
  if (a[0] != nullptr && a[0]->is_string()) {
    indention = a[0]->text();
  } else if (a[0] != nullptr) {
    indention.assign(
        static_cast<size_t>(std::clamp<int64_t>(to_int(*a[0], "indent: width"), 0, 10'000)), ' ');
  }
  const bool first = a[1] != nullptr && truth(runtime, *a[1]);
  const bool blank = a[2] != nullptr && truth(runtime, *a[2]);
  const std::vector<std::string> lines =
      split_lines(to_text(value, "indent: the value") + "\n", false);
  std::string out = first ? indention : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out += '\n';
      if (blank || !lines[i].empty()) out += indention;
    }
    out += lines[i];
    if (static_cast<int64_t>(out.size()) > runtime.limits().output) break;  // string() refuses it
  }
  return runtime.string(std::move(out), value.is_markup());
}

Value filter_truncate(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "truncate", {"length", "killwords", "end", "leeway"});
  const int64_t most = a[0] == nullptr ? 255 : to_int(*a[0], "truncate: length");
  const bool kill_words = a[1] != nullptr && truth(runtime, *a[1]);
  const std::string end = a[2] == nullptr ? "..." : to_text(*a[2], "truncate: end");
  const int64_t leeway = a[3] == nullptr || a[3]->is_none() ? 5 : to_int(*a[3], "truncate: leeway");
  const auto end_size = static_cast<int64_t>(code_points(end).size());
  if (most < end_size)
    throw TemplateError{fmt::format("truncate: expected length >= {}, got {}", end_size, most)};
  if (leeway < 0)
    throw TemplateError{fmt::format("truncate: expected leeway >= 0, got {}", leeway)};
  const std::vector<char32_t> points = code_points(to_text(value, "truncate: the value"));
  if (static_cast<int64_t>(points.size()) <= most ||
      static_cast<int64_t>(points.size()) - most <= leeway) {
    return value;
  }
  std::string out = to_utf8(points, 0, static_cast<size_t>(most - end_size));
  if (!kill_words) {
    const size_t space = out.rfind(' ');
    if (space != std::string::npos) out.resize(space);
  }
  return runtime.string(out + end, value.is_markup());
}

Value filter_wordcount(Runtime& runtime, const Value& value, const Arguments&) {
  const std::string text = to_string(runtime, value);
  int64_t count = 0;
  bool inside = false;
  for (size_t pos = 0; pos < text.size();) {
    const bool word = is_word(next_code_point(text, pos));
    count += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value(count);
}

std::string quote_url(std::string_view text, std::string_view safe) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 0x80 &&
        (std::isalnum(byte) || std::string_view("_.-~").find(c) != std::string_view::npos ||
         safe.find(c) != std::string_view::npos)) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
  return out;
}

Value filter_urlencode(Runtime& runtime, const Value& value, const Arguments&) {
  if (value.is_string() || !(value.is_sequence() || value.is_dict())) {
    return runtime.string(quote_url(to_string(runtime, value), "/"));
  }
  std::vector<std::pair<Value, Value>> pairs;
  if (value.is_dict()) {
    pairs = value.as_dict().entries();
  } else {
    for (const Value& item : value.as_sequence().items) {
      const std::vector<Value> pair = iterate(runtime, item);
      if (pair.size() != 2) throw TemplateError{"urlencode: expected pairs"};
      pairs.emplace_back(pair[0], pair[1]);
    }
  }
  const auto quote_plus = [&](const Value& part) {
    std::string text = quote_url(to_string(runtime, part), " ");
    std::replace(text.begin(), text.end(), ' ', '+');
    return text;
  };
  std::string out;
  for (const auto& [key, item] : pairs) {
    out += fmt::format("{}{}={}", out.empty() ? "" : "&", quote_plus(key), quote_plus(item));
  }
  return runtime.string(std::move(out));
}

Value filter_format(Runtime& runtime, const Value& value, const Arguments& arguments) {
  Value values;
  if (arguments.named.empty()) {
    values = runtime.tuple(arguments.positional);
  } else {
    if (!arguments.positional.empty())
      throw TemplateError{"format: positional and named arguments together"};
    Dict named;
    for (const auto& [name, item] : arguments.named) named.set(runtime, runtime.string(name), item);
    values = runtime.dict(std::move(named));
  }
  return runtime.string(format_percent(runtime, to_string(runtime, value), values));
}

Value filter_tojson(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonOptions options;
  options.ensure_ascii = a[0] != nullptr && truth(runtime, *a[0]);
  if (a[1] != nullptr && !a[1]->is_none()) {
    if (a[1]->is_string()) {
      options.indent = a[1]->text();
    } else {
      options.indent.emplace(
          static_cast<size_t>(std::clamp<int64_t>(to_int(*a[1], "tojson: indent"), 0, 1000)), ' ');
    }
    options.item_separator = ",";
  }
  if (a[2] != nullptr && !a[2]->is_none()) {
    const std::vector<Value> separators = iterate(runtime, *a[2]);
    if (separators.size() != 2) throw TemplateError{"tojson: separators must be a pair"};
    options.item_separator = to_text(separators[0], "tojson: a separator");
    options.key_separator = to_text(separators[1], "tojson: a separator");
  }
  options.sort_keys = a[3] != nullptr && truth(runtime, *a[3]);
  return runtime.string(to_json(runtime, value, options));
}

// ---- numbers ----

Value filter_abs(Runtime& runtime, const Value& value, const Arguments&) {
  if (value.is_float()) return Value(std::abs(value.as_double()));
  const int64_t number = to_int(value, "abs: the value");
  return number < 0 ? jinja::unary(runtime, UnaryOp::negate, Value(number)) : Value(number);
}

std::optional<int64_t> whole(double d) {
  if (!(d > -9223372036854775808.0 && d < 9223372036854775808.0)) return std::nullopt;
  return static_cast<int64_t>(d);
}

Value filter_int(Runtime&, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "int", {"default", "base"});
  const int64_t base = a[1] == nullptr ? 10 : to_int(*a[1], "int: base");
  std::optional<int64_t> result;
  if (value.is_integral()) {
    result = value.as_int();
  } else if (value.is_float()) {
    result = whole(value.as_double());
  } else if (value.is_string()) {
    result = parse_int(value.text(), static_cast<int>(std::clamp<int64_t>(base, -1, 99)));
    if (!result) {
      const auto d = parse_double(value.text());
      if (d) result = whole(*d);
    }
  } else if (value.is_undefined()) {
    throw TemplateError{value.undefined_message()};
  }
  if (result) return Value(*result);
  return a[0] == nullptr ? Value(int64_t{0}) : *a[0];
}

Value filter_float(Runtime&, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "float", {"default"});
  if (value.is_number()) return Value(value.as_double());
  if (value.is_undefined()) throw TemplateError{value.undefined_message()};
  if (value.is_string()) {
    if (const auto d = parse_double(value.text())) return Value(*d);
  }
  return a[0] == nullptr ? Value(0.0) : *a[0];
}

Value filter_round(Runtime&, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "round", {"precision", "method"});
  const int64_t precision = a[0] == nullptr ? 0 : to_int(*a[0], "round: precision");
  const std::string method = a[1] == nullptr ? "common" : to_text(*a[1], "round: method");
  if (!value.is_number()) {
    throw TemplateError{value.is_undefined()
                            ? value.undefined_message()
                            : fmt::format("round: a number is required, not {}", type_name(value))};
  }
  if (precision < -300 || precision > 300)
    throw TemplateError{"round: precision must be between -300 and 300"};
  const double number = value.as_double();
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil" || method == "floor") {
    const double scaled = number * scale;
    return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
  }
  if (method != "common") throw TemplateError{"method must be common, ceil or floor"};
  if (value.is_integral() && precision >= 0) return Value(value.as_int());
  if (!std::isfinite(number)) return value;
  if (precision < 0) {
    // Half to even, as Python rounds to tens.
    const double rounded =
        std::nearbyint(number / std::pow(10.0, static_cast<double>(-precision))) *
        std::pow(10.0, static_cast<double>(-precision));
    if (!value.is_integral()) return Value(rounded);
    return Value(whole(rounded).value_or(value.as_int()));
  }
  char buffer[700];  // printf rounds the exact binary value, as Python does
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), number);
  return Value(std::strtod(buffer, nullptr));
}

constexpr FilterEntry kFilters[] = {
    {"upper", convert_text<to_upper>},
    {"lower", convert_text<to_lower>},
    {"capitalize", convert_text<capitalize>},
    {"title", convert_text<title_of>},
    {"trim", filter_trim},
    {"string", filter_string},
    {"safe", filter_safe},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"forceescape", filter_forceescape},
    {"replace", filter_replace},
    {"center", filter_center},
    {"indent", filter_indent},
    {"truncate", filter_truncate},
    {"wordcount", filter_wordcount},
    {"urlencode", filter_urlencode},
    {"format", filter_format},
    {"tojson", filter_tojson},
    {"abs", filter_abs},
    {"int", filter_int},
    {"float", filter_float},
    {"round", filter_round},
};

}  // namespace

std::span<const FilterEntry> text_filters() { return kFilters; }

}  // namespace ringkeep::text::jinja
