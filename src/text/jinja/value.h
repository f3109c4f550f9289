// Values of the template language: Python's, as far as a template can see them. Everything but a
// namespace is immutable, as in jinja2's ImmutableSandboxedEnvironment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace ringkeep::text::jinja {

// Thrown inside this folder only; ChatTemplate turns it into an Error with line and column.
struct TemplateError {
  std::string message;
  bool verbatim = false;  // raise_exception: the template's own message, passed on as it is
  std::optional<uint32_t> offset = std::nullopt;  // of the innermost expression or statement
};

class Runtime;
class Value;
struct Arguments;

struct None {};
// Why a value is missing: the message of the error when it is used. Shared, since it is copied.
struct Undefined {
  std::shared_ptr<const std::string> message;
};

struct String {
  std::string text;
  bool markup = false;  // made by `safe` or `escape`: `+` and `%` then escape the other operand
};

// Containers know how deep they are nested, so that recursive walks are bounded.
inline constexpr int kMaxDataDepth = 200;

struct Sequence {
  std::vector<Value> items;
  bool tuple = false;
  bool group = false;  // the (grouper, list) pairs of groupby
  int depth = 1;
};

class Dict {
 public:
  using Entry = std::pair<Value, Value>;
  const std::vector<Entry>& entries() const { return entries_; }
  const Value* find(std::string_view key) const;
  const Value* find(Runtime&, const Value& key) const;
  // A key that is there keeps its place. Throws when the nesting would pass kMaxDataDepth.
  void set(Runtime&, Value key, Value value);
  int depth() const { return depth_; }

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;  // string keys
  int depth_ = 1;
};

// Everything else: functions, macros, ranges, iterators, namespaces, loops.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;
  virtual std::string repr(Runtime&, int depth) const;
  virtual std::optional<Value> attribute(Runtime&, std::string_view name);
  virtual std::optional<Value> item(Runtime&, const Value& key);
  virtual bool has_items() const { return false; }  // supports x[key]
  virtual bool callable() const { return false; }
  virtual Value call(Runtime&, const Arguments&);
  virtual bool iterable() const { return false; }
  virtual std::vector<Value> iterate(Runtime&);
  virtual std::optional<int64_t> length(Runtime&) const { return std::nullopt; }
  virtual std::optional<bool> contains(Runtime&, const Value&) { return std::nullopt; }
  virtual bool equals(Runtime&, const Object& other) const { return this == &other; }
  virtual int depth() const { return 1; }
};

using StringPtr = std::shared_ptr<const String>;
using SequencePtr = std::shared_ptr<const Sequence>;
using DictPtr = std::shared_ptr<const Dict>;
using ObjectPtr = std::shared_ptr<Object>;

class Value {
 public:
  Value() : data_(None{}) {}
  Value(bool b) : data_(b) {}
  Value(int64_t i) : data_(i) {}
  Value(double d) : data_(d) {}
  Value(StringPtr s) : data_(std::move(s)) {}
  Value(SequencePtr s) : data_(std::move(s)) {}
  Value(DictPtr d) : data_(std::move(d)) {}
  Value(ObjectPtr o) : data_(std::move(o)) {}
  Value(Undefined u) : data_(std::move(u)) {}
  Value(const char*) = delete;  // would become a bool

  static Value string(std::string text, bool markup = false) {
    return Value(StringPtr(std::make_shared<String>(String{std::move(text), markup})));
  }
  static Value undefined(std::string message) {
    return Value(Undefined{std::make_shared<const std::string>(std::move(message))});
  }
  // Throws when the nesting would pass kMaxDataDepth.
  static Value sequence(std::vector<Value> items, bool tuple, bool group = false);
  static Value list(std::vector<Value> items) { return sequence(std::move(items), false); }
  static Value tuple(std::vector<Value> items) { return sequence(std::move(items), true); }
  static Value dict(Dict dict) { return Value(DictPtr(std::make_shared<Dict>(std::move(dict)))); }

  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<int64_t>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_string() const { return std::holds_alternative<StringPtr>(data_); }
  bool is_sequence() const { return std::holds_alternative<SequencePtr>(data_); }
  bool is_list() const { return is_sequence() && !as_sequence().tuple; }
  bool is_tuple() const { return is_sequence() && as_sequence().tuple; }
  bool is_dict() const { return std::holds_alternative<DictPtr>(data_); }
  bool is_object() const { return std::holds_alternative<ObjectPtr>(data_); }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_integral() const { return is_bool() || is_int(); }

  bool as_bool() const { return std::get<bool>(data_); }
  int64_t as_int() const { return is_bool() ? as_bool() : std::get<int64_t>(data_); }
  double as_double() const {
    return is_float() ? std::get<double>(data_) : static_cast<double>(as_int());
  }
  const std::string& text() const { return std::get<StringPtr>(data_)->text; }
  bool is_markup() const { return is_string() && std::get<StringPtr>(data_)->markup; }
  const Sequence& as_sequence() const { return *std::get<SequencePtr>(data_); }
  const Dict& as_dict() const { return *std::get<DictPtr>(data_); }
  Object& as_object() const { return *std::get<ObjectPtr>(data_); }
  const std::string& undefined_message() const { return *std::get<Undefined>(data_).message; }

  template <typename T>
  T* object() const {
    const auto* o = std::get_if<ObjectPtr>(&data_);
    return o == nullptr ? nullptr : dynamic_cast<T*>(o->get());
  }

  int depth() const;
  bool identical(const Value& other) const;  // Python's `is`

 private:
  std::variant<None, Undefined, bool, int64_t, double, StringPtr, SequencePtr, DictPtr, ObjectPtr>
      data_;
};

// Positional and named arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The name of the type as Python's error messages and jinja2 print it ("str", "dict", ...).
std::string type_name(const Value& value);

bool truth(Runtime& runtime, const Value& value);
bool equal(Runtime& runtime, const Value& a, const Value& b);
// < 0, 0, > 0. Throws when the types have no order; `op` is for the message.
int compare(Runtime& runtime, const Value& a, const Value& b, std::string_view op);
void require_hashable(const Value& value);  // throws for lists and dicts as keys

}  // namespace ringkeep::text::jinja
