// The variable `loop` of a for statement.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "text/jinja/objects.h"

namespace ringkeep::text::jinja {

// Items are taken one by one, so that a filter (`for x in y if ...`) sees what the body did, and
// only as far ahead as the body asks (loop.last and loop.nextitem by one, loop.length all).
class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  using Keep = std::function<bool(const Value&)>;
  Loop(std::vector<Value> items, Keep keep) : source_(std::move(items)), keep_(std::move(keep)) {
    for (const Value& item : source_) depth_ = std::max(depth_, item.depth() + 1);
    if (depth_ > kMaxDataDepth) throw TemplateError{"data nested too deeply"};
  }

  bool advance();
  const Value& current() const { return *current_; }
  // After the statement: lets go of what refers to the statement, or back to this object.
  void finish() {
    keep_ = nullptr;
    last_changed_.reset();
    finished_ = true;
  }

  std::string type_name() const override { return "LoopContext"; }
  std::string repr(Runtime&, int) const override;
  std::optional<Value> attribute(Runtime&, std::string_view name) override;
  std::optional<int64_t> length(Runtime&) const override;
  int depth() const override { return depth_; }

 private:
  Value cycle(const Arguments& arguments);
  Value changed(Runtime&, const Arguments& arguments);
  bool peek() const;  // fills `after_`; false at the end
  int64_t count() const;

  mutable std::vector<Value> source_;
  mutable size_t pos_ = 0;
  mutable Keep keep_;
  mutable std::optional<Value> after_;
  std::optional<Value> before_, current_;
  std::optional<Value> last_changed_;
  bool finished_ = false;
  int64_t index0_ = -1;
  int depth_ = 1;
};

}  // namespace ringkeep::text::jinja
