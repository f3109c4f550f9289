// Values as text: str(), repr() and JSON, the way Python writes them.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"

namespace ringkeep::text::jinja {

std::string repr_double(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // The shortest digits that read back as the same number, from "d.ddde[+-]xx".
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  std::string out;
  if (text.front() == '-') {
    out = "-";
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  int exponent = 0;
  const char* digits_of_exponent = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(digits_of_exponent, text.data() + text.size(), exponent);
  std::string digits(text.substr(0, e));
  std::erase(digits, '.');
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) {
    return out + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  const auto point = static_cast<size_t>(exponent + 1);
  return out + digits.substr(0, point) + "." + digits.substr(point);
}

std::string repr_string(std::string_view text) {
  const bool double_quotes =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      append_code_point(out, c);
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
  }
  return out + quote;
}

namespace {

void check_size(Runtime& runtime, const std::string& out) {
  runtime.step();
  if (static_cast<int64_t>(out.size()) > runtime.limits().output) {
    throw TemplateError{fmt::format("a string of more than {} MiB", runtime.limits().output >> 20)};
  }
}

void append_repr(Runtime& runtime, const Value& value, int depth, std::string& out) {
  check_size(runtime, out);
  if (value.is_string()) {
    const std::string text = repr_string(value.text());
    out += value.is_markup() ? "Markup(" + text + ")" : text;
  } else if (value.is_sequence()) {
    const Sequence& sequence = value.as_sequence();
    out += sequence.tuple ? '(' : '[';
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) out += ", ";
      append_repr(runtime, sequence.items[i], depth + 1, out);
    }
    if (sequence.tuple && sequence.items.size() == 1) out += ',';
    out += sequence.tuple ? ')' : ']';
  } else if (value.is_dict()) {
    out += '{';
    bool first = true;
    for (const auto& [key, item] : value.as_dict().entries()) {
      if (!first) out += ", ";
      first = false;
      append_repr(runtime, key, depth + 1, out);
      out += ": ";
      append_repr(runtime, item, depth + 1, out);
    }
    out += '}';
  } else if (value.is_undefined()) {
    out += "Undefined";
  } else if (value.is_object()) {
    if (depth > kMaxDataDepth) {
      throw TemplateError{fmt::format("data nested deeper than {} levels", kMaxDataDepth)};
    }
    out += value.as_object().repr(runtime, depth + 1);
  } else {
    out += to_string(runtime, value);
  }
}

void append_json_string(std::string_view text, bool ensure_ascii, std::string& out) {
  out += '"';
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = next_code_point(text, pos);
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\f': out += "\\f"; break;
      case '\b': out += "\\b"; break;
      default:
        if (c < 0x20 || (ensure_ascii && c >= 0x7F && c < 0x10000)) {
          out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
        } else if (ensure_ascii && c >= 0x10000) {
          const uint32_t rest = static_cast<uint32_t>(c) - 0x10000;
          out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
        } else {
          out += text.substr(begin, pos - begin);
        }
    }
  }
  out += '"';
}

std::string json_number(const Value& value) {
  if (!value.is_float()) return fmt::format("{}", value.as_int());
  const double d = value.as_double();
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
  return repr_double(d);
}

std::string json_key(const Value& key) {
  if (key.is_string()) return key.text();
  if (key.is_none()) return "null";
  if (key.is_bool()) return key.as_bool() ? "true" : "false";
  if (key.is_number()) return json_number(key);
  throw TemplateError{
      fmt::format("tojson: keys must be str, int, float, bool or None, not {}", type_name(key))};
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonOptions& options, std::string& out)
      : runtime_(runtime), options_(options), out_(out) {}

  void write(const Value& value, int level) {
    check_size(runtime_, out_);
    if (value.is_none()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += value.as_bool() ? "true" : "false";
    } else if (value.is_number()) {
      out_ += json_number(value);
    } else if (value.is_string()) {
      append_json_string(value.text(), options_.ensure_ascii, out_);
    } else if (value.is_sequence()) {
      write_sequence(value.as_sequence(), level);
    } else if (value.is_dict()) {
      write_dict(value.as_dict(), level);
    } else {
      throw TemplateError{
          fmt::format("tojson: Object of type {} is not JSON serializable", type_name(value))};
    }
  }

 private:
  void new_line(int level) {
    if (!options_.indent) return;
    out_ += '\n';
    for (int i = 0; i < level; ++i) out_ += *options_.indent;
  }

  void write_sequence(const Sequence& sequence, int level) {
    out_ += '[';
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) out_ += options_.item_separator;
      new_line(level + 1);
      write(sequence.items[i], level + 1);
    }
    if (!sequence.items.empty()) new_line(level);
    out_ += ']';
  }

  void write_dict(const Dict& dict, int level) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (options_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return compare(runtime_, a->first, b->first, "<") < 0;
      });
    }
    out_ += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += options_.item_separator;
      new_line(level + 1);
      append_json_string(json_key(entries[i]->first), options_.ensure_ascii, out_);
      out_ += options_.key_separator;
      write(entries[i]->second, level + 1);
    }
    if (!entries.empty()) new_line(level);
    out_ += '}';
  }

  Runtime& runtime_;
  const JsonOptions& options_;
  std::string& out_;
};

}  // namespace

std::string repr(Runtime& runtime, const Value& value, int depth) {
  std::string out;
  append_repr(runtime, value, depth, out);
  return out;
}

std::string to_string(Runtime& runtime, const Value& value) {
  if (value.is_string()) return value.text();
  if (value.is_undefined()) return "";
  if (value.is_none()) return "None";
  if (value.is_bool()) return value.as_bool() ? "True" : "False";
  if (value.is_int()) return fmt::format("{}", value.as_int());
  if (value.is_float()) return repr_double(value.as_double());
  return repr(runtime, value);
}

std::string to_json(Runtime& runtime, const Value& value, const JsonOptions& options) {
  std::string out;
  JsonWriter(runtime, options, out).write(value, 0);
  return out;
}

}  // namespace ringkeep::text::jinja
