// Python's "..." % values.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/operators.h"
#include "text/jinja/text_functions.h"
#include "text/jinja/unicode.h"

namespace ringkeep::text::jinja {
namespace {

struct Spec {
  bool left = false, zero = false, plus = false, space = false, alternate = false;
  int64_t width = 0;
  int64_t precision = -1;
};

constexpr int64_t kMaxWidth = 10'000;

std::string sign_of(const Spec& spec, bool negative) {
  return negative ? "-" : spec.plus ? "+" : spec.space ? " " : "";
}

std::string integer_text(Runtime&, const Spec& spec, char type, const Value& value) {
  if (!value.is_number() || (value.is_float() && (type == 'x' || type == 'X' || type == 'o'))) {
    throw TemplateError{
        fmt::format("%{} format: a number is required, not {}", type, type_name(value))};
  }
  int64_t number = 0;
  if (value.is_float()) {
    const double d = value.as_double();
    if (!(d > -9.2e18 && d < 9.2e18)) throw TemplateError{"%d format: the number does not fit"};
    number = static_cast<int64_t>(d);
  } else {
    number = value.as_int();
  }
  const uint64_t magnitude =
      number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  std::string digits = type == 'x'   ? fmt::format("{:x}", magnitude)
                       : type == 'X' ? fmt::format("{:X}", magnitude)
                       : type == 'o' ? fmt::format("{:o}", magnitude)
                                     : fmt::format("{}", magnitude);
  const auto size = static_cast<int64_t>(digits.size());
  if (spec.precision > size) digits.insert(0, static_cast<size_t>(spec.precision - size), '0');
  std::string prefix = sign_of(spec, number < 0);
  if (spec.alternate && type != 'd' && type != 'i' && type != 'u')
    prefix += std::string("0") + type;
  const auto total = static_cast<int64_t>(prefix.size() + digits.size());
  if (spec.zero && !spec.left && total < spec.width) {
    digits.insert(0, static_cast<size_t>(spec.width - total), '0');
  }
  return prefix + digits;
}

std::string float_text(const Spec& spec, char type, const Value& value) {
  if (!value.is_number()) {
    throw TemplateError{
        fmt::format("%{} format: a number is required, not {}", type, type_name(value))};
  }
  const double d = value.as_double();
  const std::string format = fmt::format("%{}.{}{}", spec.alternate ? "#" : "",
                                         spec.precision < 0 ? 6 : spec.precision, type);
  std::string digits(400 + static_cast<size_t>(std::max<int64_t>(spec.precision, 0)), '\0');
  const int size = std::snprintf(digits.data(), digits.size(), format.c_str(), std::abs(d));
  digits.resize(static_cast<size_t>(size));
  const std::string prefix = sign_of(spec, std::signbit(d) && d == d);
  const auto total = static_cast<int64_t>(prefix.size() + digits.size());
  if (spec.zero && !spec.left && total < spec.width) {
    digits.insert(0, static_cast<size_t>(spec.width - total), '0');
  }
  return prefix + digits;
}

std::string text_text(Runtime& runtime, const Spec& spec, char type, const Value& value) {
  const std::string text =
      type == 'r' || type == 'a' ? repr(runtime, value) : to_string(runtime, value);
  if (spec.precision < 0) return text;
  const std::vector<char32_t> points = code_points(text);
  return to_utf8(points, 0, std::min(points.size(), static_cast<size_t>(spec.precision)));
}

class Formatter {
 public:
  Formatter(Runtime& runtime, const std::string& format, const Value& values)
      : runtime_(runtime), format_(format), values_(values) {}

  std::string run() {
    while (pos_ < format_.size()) {
      const char c = format_[pos_++];
      if (c != '%') {
        out_ += c;
      } else {
        conversion();
      }
      if (static_cast<int64_t>(out_.size()) > runtime_.limits().output)
        break;  // string() refuses it
    }
    const bool tuple = values_.is_tuple();
    const bool all_used = tuple ? used_ == values_.as_sequence().items.size()
                                : used_ == 1 || named_ || values_.is_dict() || values_.is_list();
    if (!all_used) throw TemplateError{"not all arguments converted during string formatting"};
    return std::move(out_);
  }

 private:
  Value next_value() {
    if (values_.is_tuple()) {
      const auto& items = values_.as_sequence().items;
      if (used_ < items.size()) return items[used_++];
    } else if (used_ == 0) {
      ++used_;
      return values_;
    }
    throw TemplateError{"not enough arguments for format string"};
  }

  char peek() const {
    if (pos_ >= format_.size()) throw TemplateError{"incomplete format"};
    return format_[pos_];
  }

  int64_t number() {
    int64_t value = 0;
    if (peek() == '*') {
      ++pos_;
      value = to_int(next_value(), "* in a format");
    } else {
      for (; peek() >= '0' && peek() <= '9'; ++pos_)
        value = std::min<int64_t>(value * 10 + (peek() - '0'), kMaxWidth + 1);
    }
    if (value > kMaxWidth || value < -kMaxWidth) {
      throw TemplateError{fmt::format("a width or precision of more than {}", kMaxWidth)};
    }
    return value;
  }

  void conversion() {
    std::optional<Value> named;
    if (peek() == '(') {
      const size_t close = format_.find(')', pos_);
      if (close == std::string::npos) throw TemplateError{"incomplete format key"};
      const std::string key = format_.substr(pos_ + 1, close - pos_ - 1);
      if (!values_.is_dict()) throw TemplateError{"format requires a mapping"};
      const Value* value = values_.as_dict().find(key);
      if (value == nullptr)
        throw TemplateError{fmt::format("the format's key {} is missing", repr_string(key))};
      named = *value;
      named_ = true;
      pos_ = close + 1;
    }
    Spec spec;
    for (;; ++pos_) {
      const char c = peek();
      if (c == '-')
        spec.left = true;
      else if (c == '0')
        spec.zero = true;
      else if (c == '+')
        spec.plus = true;
      else if (c == ' ')
        spec.space = true;
      else if (c == '#')
        spec.alternate = true;
      else
        break;
    }
    spec.width = number();
    if (spec.width < 0) {
      spec.left = true;
      spec.width = -spec.width;
    }
    if (peek() == '.') {
      ++pos_;
      spec.precision = std::max<int64_t>(number(), 0);
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++pos_;
    const char type = peek();
    ++pos_;
    if (type == '%') {
      out_ += '%';
      return;
    }
    const Value value = named ? *named : next_value();
    const Value text = Value::string(convert(spec, type, value));
    out_ += pad(runtime_, text, spec.width, ' ', spec.left ? Align::left : Align::right);
  }

  std::string convert(const Spec& spec, char type, const Value& value) {
    switch (type) {
      case 's':
      case 'r':
      case 'a': return text_text(runtime_, spec, type, value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o': return integer_text(runtime_, spec, type, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': return float_text(spec, type, value);
      case 'c': {
        if (value.is_string() && length(runtime_, value) == 1) return value.text();
        const int64_t code = value.is_string() ? -1 : to_int(value, "%c");
        if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
          throw TemplateError{"%c requires a character or its code"};
        }
        std::string out;
        append_code_point(out, static_cast<char32_t>(code));
        return out;
      }
      default: throw TemplateError{fmt::format("unsupported format character '{}'", type)};
    }
  }

  Runtime& runtime_;
  const std::string& format_;
  const Value& values_;
  size_t pos_ = 0;
  size_t used_ = 0;
  bool named_ = false;
  std::string out_;
};

}  // namespace

std::string format_percent(Runtime& runtime, const std::string& format, const Value& value) {
  return Formatter(runtime, format, value).run();
}

}  // namespace ringkeep::text::jinja
