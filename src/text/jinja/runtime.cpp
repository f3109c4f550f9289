#include "text/jinja/runtime.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/objects.h"
#include "text/jinja/unicode.h"

namespace ringkeep::text::jinja {

void Runtime::step(int64_t count) {
  steps_ += count;
  if (steps_ > limits_.steps) {
    throw TemplateError{fmt::format("the template takes more than {} steps", limits_.steps)};
  }
}

void Runtime::allocate(int64_t bytes) {
  bytes_ += bytes;
  if (bytes_ > limits_.bytes) {
    throw TemplateError{
        fmt::format("the template makes more than {} MiB of values", limits_.bytes >> 20)};
  }
}

Value Runtime::string(std::string text, bool markup) {
  if (static_cast<int64_t>(text.size()) > limits_.output) {
    throw TemplateError{fmt::format("a string of {} bytes; at most {} MiB are allowed", text.size(),
                                    limits_.output >> 20)};
  }
  allocate(static_cast<int64_t>(sizeof(String) + text.size()));
  return Value::string(std::move(text), markup);
}

Value Runtime::list(std::vector<Value> items) {
  allocate(static_cast<int64_t>(sizeof(Sequence) + items.size() * sizeof(Value)));
  return Value::list(std::move(items));
}

Value Runtime::tuple(std::vector<Value> items) {
  allocate(static_cast<int64_t>(sizeof(Sequence) + items.size() * sizeof(Value)));
  return Value::tuple(std::move(items));
}

Value Runtime::iterator(std::vector<Value> items, std::string type_name) {
  allocate(static_cast<int64_t>(sizeof(Iterator) + items.size() * sizeof(Value)));
  return Value(ObjectPtr(std::make_shared<Iterator>(std::move(items), std::move(type_name))));
}

Value Runtime::dict(Dict dict) {
  allocate(static_cast<int64_t>(sizeof(Dict) + dict.entries().size() * 160));
  return Value::dict(std::move(dict));
}

void Runtime::own(std::shared_ptr<void> object, void (*clear)(void*)) {
  allocate(256);
  owned_.emplace_back(std::move(object), clear);
}

void Runtime::release_owned() {
  for (auto& [object, clear] : owned_) clear(object.get());
  owned_.clear();
}

std::vector<const Value*> bind(const Arguments& arguments, std::string_view function,
                               std::initializer_list<const char*> names, size_t required) {
  if (arguments.positional.size() > names.size()) {
    throw TemplateError{fmt::format("{}() takes at most {} arguments, got {}", function,
                                    names.size(), arguments.positional.size())};
  }
  std::vector<const Value*> bound(names.size(), nullptr);
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = &arguments.positional[i];
  for (const auto& argument : arguments.named) {
    const std::string& name = argument.first;
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) {
      throw TemplateError{
          fmt::format("{}() got an unexpected keyword argument '{}'", function, name)};
    }
    const Value*& place = bound[static_cast<size_t>(it - names.begin())];
    if (place != nullptr) {
      throw TemplateError{
          fmt::format("{}() got multiple values for argument '{}'", function, name)};
    }
    place = &argument.second;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound[i] == nullptr) {
      throw TemplateError{fmt::format("{}() is missing the argument '{}'", function,
                                      *(names.begin() + static_cast<std::ptrdiff_t>(i)))};
    }
  }
  return bound;
}

std::vector<Value> iterate(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  if (value.is_sequence()) {
    items = value.as_sequence().items;
  } else if (value.is_dict()) {
    for (const Dict::Entry& entry : value.as_dict().entries()) items.push_back(entry.first);
  } else if (value.is_string()) {
    const std::string& text = value.text();
    runtime.step(static_cast<int64_t>(text.size()));
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos;
      next_code_point(text, pos);
      items.push_back(runtime.string(text.substr(begin, pos - begin), value.is_markup()));
    }
    return items;
  } else if (value.is_object()) {
    items = value.as_object().iterate(runtime);
  } else if (!value.is_undefined()) {
    throw TemplateError{fmt::format("'{}' object is not iterable", type_name(value))};
  }
  runtime.step(static_cast<int64_t>(items.size()));
  runtime.allocate(static_cast<int64_t>(items.size() * sizeof(Value)));
  return items;
}

int64_t length(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_sequence()) return static_cast<int64_t>(value.as_sequence().items.size());
  if (value.is_dict()) return static_cast<int64_t>(value.as_dict().entries().size());
  if (value.is_string()) {
    const std::string& text = value.text();
    runtime.step(static_cast<int64_t>(text.size() / 64));
    if (is_ascii(text)) return static_cast<int64_t>(text.size());
    int64_t count = 0;
    for (size_t pos = 0; pos < text.size(); ++count) next_code_point(text, pos);
    return count;
  }
  if (value.is_object()) {
    if (const auto n = value.as_object().length(runtime)) return *n;
  }
  throw TemplateError{fmt::format("object of type '{}' has no len()", type_name(value))};
}

int64_t to_int(const Value& value, std::string_view what) {
  if (value.is_undefined()) throw TemplateError{value.undefined_message()};
  if (!value.is_integral()) {
    throw TemplateError{fmt::format("{} must be an integer, got '{}'", what, type_name(value))};
  }
  return value.as_int();
}

const std::string& to_text(const Value& value, std::string_view what) {
  if (value.is_undefined()) throw TemplateError{value.undefined_message()};
  if (!value.is_string()) {
    throw TemplateError{fmt::format("{} must be a string, got '{}'", what, type_name(value))};
  }
  return value.text();
}

}  // namespace ringkeep::text::jinja
