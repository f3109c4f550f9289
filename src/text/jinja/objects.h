// The objects that are not plain data.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace ringkeep::text::jinja {

// A function of the language: a global or a method bound to its value.
class Function : public Object {
 public:
  using Body = Value (*)(Runtime&, const Value& self, const Arguments&);
  Function(std::string name, Body body, Value self = {})
      : name_(std::move(name)), body_(body), self_(std::move(self)) {}
  std::string type_name() const override { return "function"; }
  std::string repr(Runtime&, int) const override { return "<function " + name_ + ">"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Arguments& arguments) override {
    return body_(runtime, self_, arguments);
  }
  int depth() const override { return self_.depth() + 1; }

 private:
  std::string name_;
  Body body_;
  Value self_;
};

class Range : public Object {
 public:
  Range(int64_t start, int64_t stop, int64_t step, int64_t count)
      : start_(start), stop_(stop), step_(step), count_(count) {}
  std::string type_name() const override { return "range"; }
  std::string repr(Runtime&, int) const override;
  std::optional<Value> item(Runtime&, const Value& key) override;
  bool has_items() const override { return true; }
  bool iterable() const override { return true; }
  std::vector<Value> iterate(Runtime&) override;
  std::optional<int64_t> length(Runtime&) const override { return count_; }
  std::optional<bool> contains(Runtime&, const Value& value) override;
  bool equals(Runtime&, const Object& other) const override;

 private:
  int64_t start_, stop_, step_, count_;
};

// What a generator gives: it can be walked once, is always true and has no length.
class Iterator : public Object {
 public:
  Iterator(std::vector<Value> items, std::string type_name)
      : items_(std::move(items)), type_name_(std::move(type_name)) {
    for (const Value& item : items_) depth_ = std::max(depth_, item.depth() + 1);
    if (depth_ > kMaxDataDepth) throw TemplateError{"data nested too deeply"};
  }
  std::string type_name() const override { return type_name_; }
  std::string repr(Runtime&, int) const override { return "<" + type_name_ + " object>"; }
  bool iterable() const override { return true; }
  std::vector<Value> iterate(Runtime&) override;
  std::optional<Value> next();
  int depth() const override { return depth_; }

 private:
  std::vector<Value> items_;
  std::string type_name_;
  size_t pos_ = 0;
  int depth_ = 1;
};

// dict.keys(), dict.values() and dict.items().
class DictView : public Object {
 public:
  enum class Kind { keys, values, items };
  DictView(Value dict, Kind kind) : dict_(std::move(dict)), kind_(kind) {}
  std::string type_name() const override;
  std::string repr(Runtime&, int depth) const override;
  bool iterable() const override { return true; }
  std::vector<Value> iterate(Runtime&) override;
  std::optional<int64_t> length(Runtime&) const override {
    return static_cast<int64_t>(dict_.as_dict().entries().size());
  }
  int depth() const override { return dict_.depth() + 2; }

 private:
  Value dict_;
  Kind kind_;
};

class Namespace : public Object {
 public:
  std::string type_name() const override { return "Namespace"; }
  std::string repr(Runtime&, int depth) const override;
  std::optional<Value> attribute(Runtime&, std::string_view name) override;
  std::optional<Value> item(Runtime&, const Value& key) override;
  bool has_items() const override { return true; }
  void set(Runtime&, const std::string& name, Value value);
  void clear() { values_ = Dict(); }

 private:
  Dict values_;
};

class Joiner : public Object {
 public:
  explicit Joiner(std::string separator) : separator_(std::move(separator)) {}
  std::string type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Runtime&, const Arguments&) override;

 private:
  std::string separator_;
  bool used_ = false;
};

class Cycler : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(std::vector<Value> items);
  std::string type_name() const override { return "Cycler"; }
  std::optional<Value> attribute(Runtime&, std::string_view name) override;
  int depth() const override { return depth_; }
  Value next();
  void reset() { pos_ = 0; }

 private:
  std::vector<Value> items_;
  size_t pos_ = 0;
  int depth_ = 1;
};

}  // namespace ringkeep::text::jinja
