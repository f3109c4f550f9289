#include "text/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/runtime.h"

namespace ringkeep::text::jinja {

const Value* Dict::find(std::string_view key) const {
  const auto it = index_.find(std::string(key));
  return it == index_.end() ? nullptr : &entries_[it->second].second;
}

const Value* Dict::find(Runtime& runtime, const Value& key) const {
  if (key.is_string()) return find(key.text());
  for (const Entry& entry : entries_) {
    if (!entry.first.is_string() && equal(runtime, entry.first, key)) return &entry.second;
  }
  return nullptr;
}

void Dict::set(Runtime& runtime, Value key, Value value) {
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  if (depth_ > kMaxDataDepth) {
    throw TemplateError{fmt::format("data nested deeper than {} levels", kMaxDataDepth)};
  }
  if (const Value* old = find(runtime, key)) {
    *const_cast<Value*>(old) = std::move(value);
    return;
  }
  if (key.is_string()) index_.emplace(key.text(), entries_.size());
  entries_.emplace_back(std::move(key), std::move(value));
}

std::string Object::repr(Runtime&, int) const { return fmt::format("<{}>", type_name()); }
std::optional<Value> Object::attribute(Runtime&, std::string_view) { return std::nullopt; }
std::optional<Value> Object::item(Runtime&, const Value&) { return std::nullopt; }
Value Object::call(Runtime&, const Arguments&) {
  throw TemplateError{fmt::format("'{}' object is not callable", type_name())};
}
std::vector<Value> Object::iterate(Runtime&) {
  throw TemplateError{fmt::format("'{}' object is not iterable", type_name())};
}

Value Value::sequence(std::vector<Value> items, bool tuple, bool group) {
  int depth = 1;
  for (const Value& item : items) depth = std::max(depth, item.depth() + 1);
  if (depth > kMaxDataDepth) {
    throw TemplateError{fmt::format("data nested deeper than {} levels", kMaxDataDepth)};
  }
  return Value(
      SequencePtr(std::make_shared<Sequence>(Sequence{std::move(items), tuple, group, depth})));
}

int Value::depth() const {
  if (is_sequence()) return as_sequence().depth;
  if (is_dict()) return as_dict().depth();
  if (is_object()) return as_object().depth();
  return 0;
}

bool Value::identical(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (is_none()) return true;
  if (is_undefined()) {
    return std::get<Undefined>(data_).message == std::get<Undefined>(other.data_).message;
  }
  if (is_bool()) return as_bool() == other.as_bool();
  if (is_int()) return as_int() == other.as_int();
  if (is_float()) return as_double() == other.as_double();
  if (is_string()) {
    return std::get<StringPtr>(data_) == std::get<StringPtr>(other.data_) || text() == other.text();
  }
  if (is_sequence()) return std::get<SequencePtr>(data_) == std::get<SequencePtr>(other.data_);
  if (is_dict()) return std::get<DictPtr>(data_) == std::get<DictPtr>(other.data_);
  return std::get<ObjectPtr>(data_) == std::get<ObjectPtr>(other.data_);
}

std::string type_name(const Value& value) {
  if (value.is_none()) return "NoneType";
  if (value.is_undefined()) return "Undefined";
  if (value.is_bool()) return "bool";
  if (value.is_int()) return "int";
  if (value.is_float()) return "float";
  if (value.is_string()) return value.is_markup() ? "Markup" : "str";
  if (value.is_sequence()) return value.as_sequence().tuple ? "tuple" : "list";
  if (value.is_dict()) return "dict";
  return value.as_object().type_name();
}

bool truth(Runtime& runtime, const Value& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (value.is_integral()) return value.as_int() != 0;
  if (value.is_float()) return value.as_double() != 0.0;
  if (value.is_string()) return !value.text().empty();
  if (value.is_sequence()) return !value.as_sequence().items.empty();
  if (value.is_dict()) return !value.as_dict().entries().empty();
  const auto length = value.as_object().length(runtime);
  return !length || *length != 0;
}

namespace {

// Exact comparison of an integer and a double; NaN compares as unordered (2).
int compare_int_double(int64_t i, double d) {
  if (std::isnan(d)) return 2;
  if (d >= 9223372036854775808.0) return -1;
  if (d < -9223372036854775808.0) return 1;
  const auto whole = static_cast<int64_t>(d);
  if (i != whole) return i < whole ? -1 : 1;
  const double rest = d - std::trunc(d);
  return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
  }
  if (a.is_integral()) return compare_int_double(a.as_int(), b.as_double());
  if (b.is_integral()) {
    const int order = compare_int_double(b.as_int(), a.as_double());
    return order == 2 ? 2 : -order;
  }
  const double x = a.as_double(), y = b.as_double();
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

}  // namespace

bool equal(Runtime& runtime, const Value& a, const Value& b) {
  runtime.step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_string() && b.is_string()) return a.text() == b.text();
  if (a.is_sequence() && b.is_sequence()) {
    const Sequence &x = a.as_sequence(), &y = b.as_sequence();
    return x.tuple == y.tuple &&
           std::equal(x.items.begin(), x.items.end(), y.items.begin(), y.items.end(),
                      [&](const Value& m, const Value& n) { return equal(runtime, m, n); });
  }
  if (a.is_dict() && b.is_dict()) {
    const Dict &x = a.as_dict(), &y = b.as_dict();
    if (x.entries().size() != y.entries().size()) return false;
    return std::all_of(x.entries().begin(), x.entries().end(), [&](const Dict::Entry& entry) {
      const Value* other = y.find(runtime, entry.first);
      return other != nullptr && equal(runtime, entry.second, *other);
    });
  }
  if (a.is_object() && b.is_object()) return a.as_object().equals(runtime, b.as_object());
  return false;
}

int compare(Runtime& runtime, const Value& a, const Value& b, std::string_view op) {
  if (a.is_undefined()) throw TemplateError{a.undefined_message()};
  if (b.is_undefined()) throw TemplateError{b.undefined_message()};
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is_string() && b.is_string()) {
    const int order = a.text().compare(b.text());  // UTF-8 orders as its code points do
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.is_sequence() && b.is_sequence() && a.as_sequence().tuple == b.as_sequence().tuple) {
    const auto &x = a.as_sequence().items, &y = b.as_sequence().items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(runtime, x[i], y[i])) return compare(runtime, x[i], y[i], op);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  }
  throw TemplateError{fmt::format("'{}' not supported between instances of '{}' and '{}'", op,
                                  type_name(a), type_name(b))};
}

void require_hashable(const Value& value) {
  if (value.is_list() || value.is_dict()) {
    throw TemplateError{fmt::format("unhashable type: '{}'", type_name(value))};
  }
  if (value.is_tuple()) {
    for (const Value& item : value.as_sequence().items) require_hashable(item);
  }
}

}  // namespace ringkeep::text::jinja
