#include "text/jinja/loop.h"

#include <fmt/format.h>

namespace ringkeep::text::jinja {

bool Loop::peek() const {
  while (!after_ && pos_ < source_.size()) {
    const Value& candidate = source_[pos_++];
    if (!keep_ || keep_(candidate)) after_ = candidate;
  }
  return after_.has_value();
}

bool Loop::advance() {
  if (!peek()) return false;
  before_ = std::move(current_);
  current_ = std::move(after_);
  after_.reset();
  ++index0_;
  return true;
}

int64_t Loop::count() const {
  if (keep_) {  // filter the rest now
    std::vector<Value> rest;
    if (after_) rest.push_back(*after_);
    for (; pos_ < source_.size(); ++pos_) {
      if (keep_(source_[pos_])) rest.push_back(source_[pos_]);
    }
    source_ = std::move(rest);
    pos_ = after_ ? 1 : 0;
    keep_ = nullptr;
  }
  return index0_ + 1 + (after_ ? 1 : 0) + static_cast<int64_t>(source_.size() - pos_);
}

std::optional<int64_t> Loop::length(Runtime&) const { return count(); }

std::string Loop::repr(Runtime&, int) const {
  return fmt::format("<LoopContext {}/{}>", index0_ + 1, count());
}

Value Loop::cycle(const Arguments& arguments) {
  if (arguments.positional.empty()) throw TemplateError{"no items for cycling given"};
  return arguments.positional[static_cast<size_t>(index0_) % arguments.positional.size()];
}

Value Loop::changed(Runtime& runtime, const Arguments& arguments) {
  const Value now = runtime.tuple(arguments.positional);
  const bool differs = !last_changed_ || !equal(runtime, *last_changed_, now);
  if (!finished_) last_changed_ = now;
  return Value(differs);
}

std::optional<Value> Loop::attribute(Runtime&, std::string_view name) {
  if (name == "index") return Value(index0_ + 1);
  if (name == "index0") return Value(index0_);
  if (name == "first") return Value(index0_ == 0);
  if (name == "last") return Value(!peek());
  if (name == "length") return Value(count());
  if (name == "revindex") return Value(count() - index0_);
  if (name == "revindex0") return Value(count() - index0_ - 1);
  if (name == "depth") return Value(int64_t{1});  // recursive loops are refused
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem") {
    return before_ ? *before_ : Value::undefined("there is no previous item");
  }
  if (name == "nextitem") return peek() ? *after_ : Value::undefined("there is no next item");
  Function::Body body = nullptr;
  if (name == "cycle") {
    body = [](Runtime&, const Value& self, const Arguments& a) {
      return self.object<Loop>()->cycle(a);
    };
  } else if (name == "changed") {
    body = [](Runtime& r, const Value& self, const Arguments& a) {
      return self.object<Loop>()->changed(r, a);
    };
  } else {
    return std::nullopt;
  }
  return Value(ObjectPtr(
      std::make_shared<Function>(std::string(name), body, Value(ObjectPtr(shared_from_this())))));
}

}  // namespace ringkeep::text::jinja
