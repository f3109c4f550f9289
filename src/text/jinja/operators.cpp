#include "text/jinja/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/unicode.h"

namespace ringkeep::text::jinja {
namespace {

constexpr const char* kBinarySigns[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void unsupported(BinaryOp op, const Value& a, const Value& b) {
  throw TemplateError{fmt::format("unsupported operand type(s) for {}: '{}' and '{}'",
                                  kBinarySigns[static_cast<int>(op)], type_name(a), type_name(b))};
}

[[noreturn]] void overflow() { throw TemplateError{"the result does not fit a 64-bit integer"}; }

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return result;
}

Value integers(BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case BinaryOp::add:
      if (__builtin_add_overflow(a, b, &result)) overflow();
      return Value(result);
    case BinaryOp::subtract:
      if (__builtin_sub_overflow(a, b, &result)) overflow();
      return Value(result);
    case BinaryOp::multiply:
      if (__builtin_mul_overflow(a, b, &result)) overflow();
      return Value(result);
    case BinaryOp::divide:
      if (b == 0) throw TemplateError{"division by zero"};
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOp::floor_divide:
    case BinaryOp::modulo: {
      if (b == 0) throw TemplateError{"integer division or modulo by zero"};
      if (b == -1) {  // the smallest integer has no positive twin
        if (op == BinaryOp::modulo) return Value(int64_t{0});
        if (__builtin_sub_overflow(int64_t{0}, a, &result)) overflow();
        return Value(result);
      }
      int64_t quotient = a / b, rest = a % b;
      if (rest != 0 && (rest < 0) != (b < 0)) {
        --quotient;
        rest += b;
      }
      return Value(op == BinaryOp::modulo ? rest : quotient);
    }
    case BinaryOp::power:
      if (b >= 0) {
        if (a == 0 || a == 1) return Value(int64_t{b == 0 ? 1 : a});
        if (a == -1) return Value(int64_t{b % 2 == 0 ? 1 : -1});
        return Value(integer_power(a, b));
      }
      if (a == 0) throw TemplateError{"0.0 cannot be raised to a negative power"};
      return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  return {};
}

Value doubles(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::add: return Value(a + b);
    case BinaryOp::subtract: return Value(a - b);
    case BinaryOp::multiply: return Value(a * b);
    case BinaryOp::divide:
      if (b == 0.0) throw TemplateError{"float division by zero"};
      return Value(a / b);
    case BinaryOp::floor_divide:
    case BinaryOp::modulo: {
      if (b == 0.0) throw TemplateError{"float floor division or modulo by zero"};
      double rest = std::fmod(a, b);
      double quotient = (a - rest) / b;
      if (rest != 0.0) {
        if ((rest < 0.0) != (b < 0.0)) {
          rest += b;
          quotient -= 1.0;
        }
      } else {
        rest = std::copysign(0.0, b);
      }
      if (op == BinaryOp::modulo) return Value(rest);
      if (quotient == 0.0) return Value(std::copysign(0.0, a / b));
      const double floor = std::floor(quotient);
      return Value(quotient - floor > 0.5 ? floor + 1.0 : floor);
    }
    case BinaryOp::power: {
      if (a == 0.0 && b < 0.0) throw TemplateError{"0.0 cannot be raised to a negative power"};
      if (a < 0.0 && std::isfinite(b) && b != std::floor(b)) {
        throw TemplateError{"a negative number to a fractional power is not a real number"};
      }
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
        throw TemplateError{"(34, 'Numerical result out of range')"};
      }
      return Value(result);
    }
  }
  return {};
}

Value repeat(Runtime& runtime, const Value& value, int64_t count) {
  count = std::max<int64_t>(count, 0);
  const auto checked = [&](size_t size, int64_t most) {
    int64_t total = 0;
    if (__builtin_mul_overflow(static_cast<int64_t>(size), count, &total) || total > most) {
      throw TemplateError{fmt::format("{} repetitions of {} make too much", count, size)};
    }
    runtime.step(total / 64);
    return static_cast<size_t>(total);
  };
  if (value.is_string()) {
    std::string out;
    out.reserve(checked(value.text().size(), runtime.limits().output));
    if (!value.text().empty()) {
      for (int64_t i = 0; i < count; ++i) out += value.text();
    }
    return runtime.string(std::move(out), value.is_markup());
  }
  const Sequence& sequence = value.as_sequence();
  std::vector<Value> items;
  const size_t total = checked(sequence.items.size(), runtime.limits().steps);
  runtime.allocate(static_cast<int64_t>(total * sizeof(Value)));
  items.reserve(total);
  if (!sequence.items.empty()) {
    for (int64_t i = 0; i < count; ++i) {
      items.insert(items.end(), sequence.items.begin(), sequence.items.end());
    }
  }
  return Value::sequence(std::move(items), sequence.tuple);
}

std::string markup_operand(const Value& value, bool other_is_markup) {
  return other_is_markup && !value.is_markup() ? escape_html(value.text()) : value.text();
}

// Resolves Python's slice bounds for a sequence of `size` items; returns the chosen indices' count.
int64_t slice_bounds(int64_t size, const Value& start, const Value& stop, int64_t step,
                     int64_t& first) {
  const auto clamp = [&](const Value& bound, int64_t missing) {
    if (bound.is_none()) return missing;
    int64_t i = to_int(bound, "a slice index");
    if (i < 0) i = i < -size ? (step < 0 ? -1 : 0) : i + size;
    if (i >= size) i = step < 0 ? size - 1 : size;
    return i;
  };
  first = clamp(start, step < 0 ? size - 1 : 0);
  const int64_t last = clamp(stop, step < 0 ? -1 : size);
  if (step > 0) return first < last ? (last - first - 1) / step + 1 : 0;
  return last < first ? (first - last - 1) / -step + 1 : 0;
}

}  // namespace

Value binary(Runtime& runtime, BinaryOp op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    return a.is_integral() && b.is_integral() ? integers(op, a.as_int(), b.as_int())
                                              : doubles(op, a.as_double(), b.as_double());
  }
  if (op == BinaryOp::modulo && a.is_string()) {
    return runtime.string(format_percent(runtime, a.text(), b), a.is_markup());
  }
  if (a.is_undefined()) throw TemplateError{a.undefined_message()};
  if (b.is_undefined()) throw TemplateError{b.undefined_message()};
  if (op == BinaryOp::add) {
    if (a.is_string() && b.is_string()) {
      const bool markup = a.is_markup() || b.is_markup();
      return runtime.string(markup_operand(a, markup) + markup_operand(b, markup), markup);
    }
    if (a.is_sequence() && b.is_sequence() && a.is_tuple() == b.is_tuple()) {
      std::vector<Value> items = a.as_sequence().items;
      const auto& more = b.as_sequence().items;
      items.insert(items.end(), more.begin(), more.end());
      runtime.step(static_cast<int64_t>(items.size() / 8));
      return a.is_tuple() ? runtime.tuple(std::move(items)) : runtime.list(std::move(items));
    }
    if (a.is_string()) {
      throw TemplateError{
          fmt::format("can only concatenate str (not \"{}\") to str", type_name(b))};
    }
    if (a.is_sequence()) {
      throw TemplateError{
          fmt::format("can only concatenate {0} (not \"{1}\") to {0}", type_name(a), type_name(b))};
    }
  }
  if (op == BinaryOp::multiply) {
    const auto repeatable = [](const Value& v) { return v.is_string() || v.is_sequence(); };
    if (repeatable(a) && b.is_integral()) return repeat(runtime, a, b.as_int());
    if (repeatable(b) && a.is_integral()) return repeat(runtime, b, a.as_int());
  }
  unsupported(op, a, b);
}

Value unary(Runtime& runtime, UnaryOp op, const Value& value) {
  if (op == UnaryOp::logical_not) return Value(!truth(runtime, value));
  if (value.is_undefined()) throw TemplateError{value.undefined_message()};
  if (value.is_integral()) {
    int64_t result = value.as_int();
    if (op == UnaryOp::negate && __builtin_sub_overflow(int64_t{0}, result, &result)) overflow();
    return Value(result);
  }
  if (value.is_float())
    return Value(op == UnaryOp::negate ? -value.as_double() : value.as_double());
  throw TemplateError{fmt::format("bad operand type for unary {}: '{}'",
                                  op == UnaryOp::negate ? '-' : '+', type_name(value))};
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      throw TemplateError{
          fmt::format("'in <string>' requires string as left operand, not {}", type_name(item))};
    }
    runtime.step(static_cast<int64_t>(container.text().size() / 64));
    return container.text().find(item.text()) != std::string::npos;
  }
  if (container.is_dict()) {
    require_hashable(item);
    return container.as_dict().find(runtime, item) != nullptr;
  }
  if (container.is_object()) {
    if (const auto found = container.as_object().contains(runtime, item)) return *found;
  }
  if (container.is_sequence()) {
    const auto& items = container.as_sequence().items;
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& v) { return equal(runtime, v, item); });
  }
  if (!container.is_undefined() && !(container.is_object() && container.as_object().iterable())) {
    throw TemplateError{fmt::format("argument of type '{}' is not iterable", type_name(container))};
  }
  const std::vector<Value> items = iterate(runtime, container);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& v) { return equal(runtime, v, item); });
}

bool compare_op(Runtime& runtime, CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::eq: return equal(runtime, a, b);
    case CompareOp::ne: return !equal(runtime, a, b);
    case CompareOp::lt: return compare(runtime, a, b, "<") == -1;
    case CompareOp::le: {
      const int order = compare(runtime, a, b, "<=");
      return order == -1 || order == 0;
    }
    case CompareOp::gt: return compare(runtime, a, b, ">") == 1;
    case CompareOp::ge: {
      const int order = compare(runtime, a, b, ">=");
      return order == 1 || order == 0;
    }
    case CompareOp::in: return contains(runtime, b, a);
    case CompareOp::not_in: return !contains(runtime, b, a);
  }
  return false;
}

namespace {

std::string object_name(const Value& value) {
  return value.is_none() ? "None" : fmt::format("'{} object'", type_name(value));
}

bool forbidden_method(const Value& object, std::string_view name) {
  const auto any = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* n) { return name == n; });
  };
  if (object.is_dict()) return any({"clear", "pop", "popitem", "setdefault", "update"});
  if (object.is_list()) {
    return any({"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
  }
  return false;
}

std::optional<Value> sequence_item(Runtime& runtime, const Value& object, int64_t index) {
  if (object.is_sequence()) {
    const auto& items = object.as_sequence().items;
    const auto size = static_cast<int64_t>(items.size());
    if (index < 0) index += size;
    if (index < 0 || index >= size) return std::nullopt;
    return items[static_cast<size_t>(index)];
  }
  const std::string& text = object.text();
  const int64_t size = length(runtime, object);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  if (size == static_cast<int64_t>(text.size())) {
    return runtime.string(text.substr(static_cast<size_t>(index), 1), object.is_markup());
  }
  size_t pos = 0;
  for (int64_t i = 0; i < index; ++i) next_code_point(text, pos);
  const size_t begin = pos;
  next_code_point(text, pos);
  return runtime.string(text.substr(begin, pos - begin), object.is_markup());
}

std::optional<Value> find_item(Runtime& runtime, const Value& object, const Value& key) {
  if (object.is_dict()) {
    if (key.is_list() || key.is_dict()) return std::nullopt;
    const Value* value = object.as_dict().find(runtime, key);
    return value == nullptr ? std::nullopt : std::optional<Value>(*value);
  }
  if ((object.is_sequence() || object.is_string()) && key.is_integral()) {
    return sequence_item(runtime, object, key.as_int());
  }
  if (object.is_object()) return object.as_object().item(runtime, key);
  return std::nullopt;
}

std::optional<Value> find_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (name.starts_with("_")) return std::nullopt;
  if (object.is_object()) return object.as_object().attribute(runtime, name);
  if (object.is_sequence() && object.as_sequence().group) {
    if (name == "grouper") return object.as_sequence().items[0];
    if (name == "list") return object.as_sequence().items[1];
  }
  if (forbidden_method(object, name)) {
    return Value::undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
  }
  return find_method(runtime, object, name);
}

}  // namespace

Value get_attribute(Runtime& runtime, const Value& object, const std::string& name) {
  if (object.is_undefined()) throw TemplateError{object.undefined_message()};
  if (auto value = find_attribute(runtime, object, name)) return *std::move(value);
  if (object.is_dict()) {
    if (const Value* value = object.as_dict().find(name)) return *value;
  }
  return Value::undefined(fmt::format("{} has no attribute '{}'", object_name(object), name));
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  if (object.is_undefined()) throw TemplateError{object.undefined_message()};
  if (auto value = find_item(runtime, object, key)) return *std::move(value);
  if (key.is_string()) {
    if (auto value = find_attribute(runtime, object, key.text())) return *std::move(value);
    return Value::undefined(
        fmt::format("{} has no attribute {}", object_name(object), repr_string(key.text())));
  }
  return Value::undefined(
      fmt::format("{} has no element {}", object_name(object), repr(runtime, key)));
}

Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
                const Value& step_value) {
  if (object.is_undefined()) throw TemplateError{object.undefined_message()};
  const int64_t step = step_value.is_none() ? 1 : to_int(step_value, "a slice step");
  if (step == 0) throw TemplateError{"slice step cannot be zero"};
  int64_t first = 0;
  if (object.is_string()) {
    const std::vector<char32_t> points = code_points(object.text());
    runtime.step(static_cast<int64_t>(points.size() / 64));
    const int64_t count = slice_bounds(static_cast<int64_t>(points.size()), start, stop,
                                       std::max(step, -INT64_MAX), first);
    std::string out;
    for (int64_t i = 0; i < count; ++i) {
      append_code_point(out, points[static_cast<size_t>(first + i * step)]);
    }
    return runtime.string(std::move(out), object.is_markup());
  }
  std::vector<Value> source;
  if (object.is_sequence()) {
    source = object.as_sequence().items;
  } else if (object.is_object() && object.as_object().has_items() &&
             object.as_object().iterable()) {
    source = object.as_object().iterate(runtime);
  } else {
    return Value::undefined(fmt::format("{} cannot be sliced", object_name(object)));
  }
  const int64_t count = slice_bounds(static_cast<int64_t>(source.size()), start, stop,
                                     std::max(step, -INT64_MAX), first);
  runtime.step(count / 8);
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    items.push_back(source[static_cast<size_t>(first + i * step)]);
  return object.is_tuple() ? runtime.tuple(std::move(items)) : runtime.list(std::move(items));
}

}  // namespace ringkeep::text::jinja
