// What a running template may use up, and the services that filters and methods call back.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace ringkeep::text::jinja {

// A template comes with a model file, and what it goes through with a request: both are untrusted.
// Each limit ends rendering with an error. All steps take .15 to .7 s, all bytes (of `tojson` of a
// long text, the worst found) 1.3 s.
struct Limits {
  int64_t steps = 10'000'000;          // evaluated nodes, iterations, items handled
  int64_t bytes = int64_t{256} << 20;  // all strings and containers made while rendering
  int64_t output = int64_t{16} << 20;  // the rendered text, and any one string
  int64_t range = 100'000;             // items of one range(), as jinja2's sandbox has it
  int depth = 600;                     // nested evaluation, macro calls included
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  void step(int64_t count = 1);
  void allocate(int64_t bytes);
  const Limits& limits() const { return limits_; }

  // Makers that count what they make.
  Value string(std::string text, bool markup = false);
  Value list(std::vector<Value> items);
  Value tuple(std::vector<Value> items);
  Value iterator(std::vector<Value> items, std::string type_name = "generator");
  Value dict(Dict dict);

  // An object that may become part of a reference cycle is owned here until rendering ends.
  void own(std::shared_ptr<void> object, void (*clear)(void*));

  virtual Value call(const Value& callee, const Arguments& arguments) = 0;

 protected:
  void release_owned();  // breaks the cycles

 private:
  Limits limits_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
  std::vector<std::pair<std::shared_ptr<void>, void (*)(void*)>> owned_;
};

// The values of a call in the order of `names`; a missing one is null. Throws for too many
// arguments, unknown names, and when one of the first `required` is missing.
std::vector<const Value*> bind(const Arguments& arguments, std::string_view function,
                               std::initializer_list<const char*> names, size_t required = 0);
std::vector<const Value*> bind(Arguments&&, std::string_view, std::initializer_list<const char*>,
                               size_t = 0) = delete;  // the result points into the arguments

// All items of an iterable value; an iterator is used up by it.
std::vector<Value> iterate(Runtime& runtime, const Value& value);
int64_t length(Runtime& runtime, const Value& value);

// str() and repr() as Python prints them.
std::string to_string(Runtime& runtime, const Value& value);
std::string repr(Runtime& runtime, const Value& value, int depth = 0);
std::string repr_string(std::string_view text);
std::string repr_double(double value);

// Conversions of arguments; `what` names the argument in the error.
int64_t to_int(const Value& value, std::string_view what);
const std::string& to_text(const Value& value, std::string_view what);

struct JsonOptions {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // the text of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
std::string to_json(Runtime& runtime, const Value& value, const JsonOptions& options);

using FilterFunction = Value (*)(Runtime&, const Value& input, const Arguments&);
using TestFunction = bool (*)(Runtime&, const Value& input, const Arguments&);
FilterFunction find_filter(std::string_view name);  // null: there is none
TestFunction find_test(std::string_view name);
std::optional<Value> find_global(std::string_view name);

}  // namespace ringkeep::text::jinja
