#include "text/jinja/objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace ringkeep::text::jinja {

std::string Range::repr(Runtime&, int) const {
  return step_ == 1 ? fmt::format("range({}, {})", start_, stop_)
                    : fmt::format("range({}, {}, {})", start_, stop_, step_);
}

std::optional<Value> Range::item(Runtime&, const Value& key) {
  if (!key.is_integral()) return std::nullopt;
  int64_t i = key.as_int();
  if (i < 0) i += count_;
  if (i < 0 || i >= count_) return std::nullopt;
  return Value(start_ + i * step_);
}

std::vector<Value> Range::iterate(Runtime&) {
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(count_));
  for (int64_t i = 0; i < count_; ++i) items.emplace_back(start_ + i * step_);
  return items;
}

std::optional<bool> Range::contains(Runtime& runtime, const Value& value) {
  runtime.step(count_);
  for (int64_t i = 0; i < count_; ++i) {
    if (equal(runtime, Value(start_ + i * step_), value)) return true;
  }
  return false;
}

bool Range::equals(Runtime&, const Object& other) const {
  const auto* r = dynamic_cast<const Range*>(&other);
  if (r == nullptr || r->count_ != count_) return false;
  return count_ == 0 || (r->start_ == start_ && (count_ == 1 || r->step_ == step_));
}

std::optional<Value> Iterator::next() {
  if (pos_ == items_.size()) return std::nullopt;
  return std::move(items_[pos_++]);
}

std::vector<Value> Iterator::iterate(Runtime&) {
  std::vector<Value> rest(
      std::make_move_iterator(items_.begin() + static_cast<std::ptrdiff_t>(pos_)),
      std::make_move_iterator(items_.end()));
  items_.clear();
  pos_ = 0;
  return rest;
}

std::string DictView::type_name() const {
  switch (kind_) {
    case Kind::keys: return "dict_keys";
    case Kind::values: return "dict_values";
    case Kind::items: return "dict_items";
  }
  return "";
}

std::string DictView::repr(Runtime& runtime, int depth) const {
  std::string out = type_name() + "([";
  bool first = true;
  for (const auto& [key, value] : dict_.as_dict().entries()) {
    if (!first) out += ", ";
    first = false;
    switch (kind_) {
      case Kind::keys: out += jinja::repr(runtime, key, depth); break;
      case Kind::values: out += jinja::repr(runtime, value, depth); break;
      case Kind::items:
        out += "(" + jinja::repr(runtime, key, depth) + ", " + jinja::repr(runtime, value, depth) +
               ")";
        break;
    }
  }
  return out + "])";
}

std::vector<Value> DictView::iterate(Runtime& runtime) {
  std::vector<Value> items;
  for (const auto& [key, value] : dict_.as_dict().entries()) {
    switch (kind_) {
      case Kind::keys: items.push_back(key); break;
      case Kind::values: items.push_back(value); break;
      case Kind::items: items.push_back(runtime.tuple({key, value})); break;
    }
  }
  return items;
}

std::string Namespace::repr(Runtime& runtime, int depth) const {
  std::string out = "<Namespace {";
  bool first = true;
  for (const auto& [key, value] : values_.entries()) {
    if (!first) out += ", ";
    first = false;
    out += jinja::repr(runtime, key, depth) + ": " + jinja::repr(runtime, value, depth);
  }
  return out + "}>";
}

std::optional<Value> Namespace::attribute(Runtime&, std::string_view name) {
  const Value* value = values_.find(name);
  return value == nullptr ? std::nullopt : std::optional<Value>(*value);
}

std::optional<Value> Namespace::item(Runtime& runtime, const Value& key) {
  return key.is_string() ? attribute(runtime, key.text()) : std::nullopt;
}

void Namespace::set(Runtime& runtime, const std::string& name, Value value) {
  if (name.starts_with('_')) {
    throw TemplateError{
        fmt::format("a namespace cannot hold names that begin with an underscore, got '{}'", name)};
  }
  values_.set(runtime, Value::string(name), std::move(value));
}

Value Joiner::call(Runtime& runtime, const Arguments&) {
  if (!used_) {
    used_ = true;
    return runtime.string("");
  }
  return runtime.string(separator_);
}

Cycler::Cycler(std::vector<Value> items) : items_(std::move(items)) {
  for (const Value& item : items_) depth_ = std::max(depth_, item.depth() + 1);
  if (items_.empty()) throw TemplateError{"cycler() needs at least one item"};
  if (depth_ > kMaxDataDepth) throw TemplateError{"data nested too deeply"};
}

Value Cycler::next() {
  Value value = items_[pos_];
  pos_ = (pos_ + 1) % items_.size();
  return value;
}

std::optional<Value> Cycler::attribute(Runtime&, std::string_view name) {
  if (name == "current") return items_[pos_];
  Function::Body body = nullptr;
  if (name == "next") {
    body = [](Runtime&, const Value& self, const Arguments& arguments) {
      bind(arguments, "next", {});
      return self.object<Cycler>()->next();
    };
  } else if (name == "reset") {
    body = [](Runtime&, const Value& self, const Arguments& arguments) {
      bind(arguments, "reset", {});
      self.object<Cycler>()->reset();
      return Value();
    };
  } else {
    return std::nullopt;
  }
  return Value(ObjectPtr(
      std::make_shared<Function>(std::string(name), body, Value(ObjectPtr(shared_from_this())))));
}

}  // namespace ringkeep::text::jinja
