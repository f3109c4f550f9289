// Operators, subscripts and attributes, with Python's meaning.
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace ringkeep::text::jinja {

Value binary(Runtime& runtime, BinaryOp op, const Value& a, const Value& b);
Value unary(Runtime& runtime, UnaryOp op, const Value& value);
bool contains(Runtime& runtime, const Value& container, const Value& item);
bool compare_op(Runtime& runtime, CompareOp op, const Value& a, const Value& b);

// x.name: an attribute or method first, then an item. x[key]: an item first, then an attribute.
// What is not there is undefined, as is what the sandbox forbids.
Value get_attribute(Runtime& runtime, const Value& object, const std::string& name);
Value get_item(Runtime& runtime, const Value& object, const Value& key);
// Bounds are integers or None.
Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
                const Value& step);

// A method of a plain value, bound to it; nothing when it has none of this name.
std::optional<Value> find_method(Runtime& runtime, const Value& self, std::string_view name);

// "..." % value and the filter `format`.
std::string format_percent(Runtime& runtime, const std::string& format, const Value& value);
std::string escape_html(std::string_view text);

}  // namespace ringkeep::text::jinja
