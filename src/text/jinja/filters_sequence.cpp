// Filters on sequences and mappings.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_functions.h"
#include "text/jinja/unicode.h"

namespace ringkeep::text::jinja {
namespace {

// "a.b.0" as the chain of keys a, b, 0.
std::vector<Value> attribute_path(Runtime& runtime, const Value& attribute) {
  if (!attribute.is_string()) return {attribute};
  std::vector<Value> path;
  const std::string& text = attribute.text();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t dot = std::min(text.find('.', begin), text.size());
    std::string part = text.substr(begin, dot - begin);
    const bool digits = !part.empty() && std::all_of(part.begin(), part.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
    const auto index = digits ? parse_int(part, 10) : std::nullopt;
    path.push_back(index ? Value(*index) : runtime.string(std::move(part)));
    begin = dot + 1;
  }
  return path;
}

Value follow(Runtime& runtime, Value item, const std::vector<Value>& path,
             const Value* otherwise = nullptr) {
  for (const Value& key : path) {
    item = get_item(runtime, item, key);
    if (item.is_undefined() && otherwise != nullptr && !otherwise->is_none()) item = *otherwise;
  }
  return item;
}

Value lower_case(Runtime& runtime, Value value) {
  return value.is_string() ? runtime.string(to_lower(value.text())) : value;
}

// What sort, min, max, unique and groupby compare: an attribute or the item itself, in lower case
// unless case matters.
class Key {
 public:
  Key(Runtime& runtime, const Value* attribute, bool case_sensitive,
      const Value* otherwise = nullptr)
      : runtime_(runtime), case_sensitive_(case_sensitive), otherwise_(otherwise) {
    if (attribute != nullptr && !attribute->is_none()) path_ = attribute_path(runtime, *attribute);
  }
  Value of(const Value& item) const {
    Value value = follow(runtime_, item, path_, otherwise_);
    return case_sensitive_ ? value : lower_case(runtime_, std::move(value));
  }

 private:
  Runtime& runtime_;
  std::vector<Value> path_;
  bool case_sensitive_;
  const Value* otherwise_;
};

bool flag(Runtime& runtime, const Value* value) {
  return value != nullptr && truth(runtime, *value);
}

using Keyed = std::pair<Value, Value>;  // key, item

void sort_by_key(Runtime& runtime, std::vector<Keyed>& items, bool reverse) {
  // std::sort must not see an order that contradicts itself (NaN, errors): a merge sort of our own.
  const auto less = [&](const Keyed& a, const Keyed& b) {
    runtime.step();
    return compare(runtime, a.first, b.first, "<") == -1;
  };
  std::vector<Keyed> other(items.size());
  for (size_t width = 1; width < items.size(); width *= 2) {
    for (size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, items.size());
      const size_t end = std::min(begin + 2 * width, items.size());
      size_t i = begin, j = middle;
      for (size_t k = begin; k < end; ++k) {
        const bool take_right =
            i == middle ||
            (j < end && (reverse ? less(items[i], items[j]) : less(items[j], items[i])));
        other[k] = std::move(take_right ? items[j++] : items[i++]);
      }
    }
    items.swap(other);
  }
}

std::vector<Keyed> with_keys(const std::vector<Value>& items, const Key& key) {
  std::vector<Keyed> keyed;
  for (const Value& item : items) keyed.emplace_back(key.of(item), item);
  return keyed;
}

Value filter_length(Runtime& runtime, const Value& value, const Arguments& arguments) {
  bind(arguments, "length", {});
  return Value(length(runtime, value));
}

Value filter_first(Runtime& runtime, const Value& value, const Arguments& arguments) {
  bind(arguments, "first", {});
  if (auto* iterator = value.object<Iterator>()) {
    auto item = iterator->next();
    return item ? *std::move(item) : Value::undefined("No first item, sequence was empty.");
  }
  const std::vector<Value> items = iterate(runtime, value);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value filter_last(Runtime& runtime, const Value& value, const Arguments& arguments) {
  bind(arguments, "last", {});
  if (value.object<Iterator>() != nullptr) {
    throw TemplateError{fmt::format("'{}' object is not reversible", type_name(value))};
  }
  const std::vector<Value> items = iterate(runtime, value);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value filter_list(Runtime& runtime, const Value& value, const Arguments& arguments) {
  bind(arguments, "list", {});
  return runtime.list(iterate(runtime, value));
}

Value filter_reverse(Runtime& runtime, const Value& value, const Arguments& arguments) {
  bind(arguments, "reverse", {});
  if (value.is_string()) {
    std::vector<char32_t> points = code_points(value.text());
    std::reverse(points.begin(), points.end());
    return runtime.string(to_utf8(points, 0, points.size()), value.is_markup());
  }
  std::vector<Value> items = iterate(runtime, value);
  std::reverse(items.begin(), items.end());
  return runtime.iterator(std::move(items), "reversed");
}

Value filter_join(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "join", {"d", "attribute"});
  const std::string separator = a[0] == nullptr ? "" : to_string(runtime, *a[0]);
  const Key key(runtime, a[1], true);
  std::string out;
  bool first = true;
  for (const Value& item : iterate(runtime, value)) {
    if (!first) out += separator;
    first = false;
    out += to_string(runtime, key.of(item));
    if (static_cast<int64_t>(out.size()) > runtime.limits().output) break;  // string() refuses it
  }
  return runtime.string(std::move(out));
}

Value filter_default(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "default", {"default_value", "boolean"});
  if (!value.is_undefined() && !(flag(runtime, a[1]) && !truth(runtime, value))) return value;
  return a[0] == nullptr ? runtime.string("") : *a[0];
}

Value filter_attr(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "attr", {"name"}, 1);
  const std::string& name = to_text(*a[0], "attr: name");
  if (value.is_dict()) {  // attributes only, never items
    auto method = find_method(runtime, value, name);
    return method ? *std::move(method)
                  : Value::undefined(fmt::format("'dict object' has no attribute '{}'", name));
  }
  return get_attribute(runtime, value, name);
}

Value filter_items(Runtime& runtime, const Value& value, const Arguments& arguments) {
  bind(arguments, "items", {});
  std::vector<Value> items;
  if (value.is_dict()) {
    for (const auto& [key, item] : value.as_dict().entries())
      items.push_back(runtime.tuple({key, item}));
  } else if (!value.is_undefined()) {
    throw TemplateError{"Can only get item pairs from a mapping."};
  }
  return runtime.iterator(std::move(items));
}

Value filter_dictsort(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "dictsort", {"case_sensitive", "by", "reverse"});
  const std::string by = a[1] == nullptr ? "key" : to_text(*a[1], "dictsort: by");
  if (by != "key" && by != "value")
    throw TemplateError{"You can only sort by either \"key\" or \"value\""};
  if (!value.is_dict())
    throw TemplateError{fmt::format("dictsort: expected a mapping, got '{}'", type_name(value))};
  const Key key(runtime, nullptr, flag(runtime, a[0]));
  std::vector<Keyed> keyed;
  for (const auto& [k, v] : value.as_dict().entries()) {
    keyed.emplace_back(key.of(by == "key" ? k : v), runtime.tuple({k, v}));
  }
  sort_by_key(runtime, keyed, flag(runtime, a[2]));
  std::vector<Value> items;
  for (Keyed& entry : keyed) items.push_back(std::move(entry.second));
  return runtime.list(std::move(items));
}

Value filter_sort(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "sort", {"reverse", "case_sensitive", "attribute"});
  // "a,b" sorts by a and then by b.
  std::vector<Key> keys;
  if (a[2] != nullptr && a[2]->is_string()) {
    const std::string& text = a[2]->text();
    for (size_t begin = 0; begin <= text.size();) {
      const size_t comma = std::min(text.find(',', begin), text.size());
      const Value part = runtime.string(text.substr(begin, comma - begin));
      keys.emplace_back(runtime, &part, flag(runtime, a[1]));
      begin = comma + 1;
    }
  } else {
    keys.emplace_back(runtime, a[2], flag(runtime, a[1]));
  }
  std::vector<Keyed> keyed;
  for (const Value& item : iterate(runtime, value)) {
    std::vector<Value> parts;
    for (const Key& key : keys) parts.push_back(key.of(item));
    keyed.emplace_back(keys.size() == 1 ? parts[0] : runtime.list(std::move(parts)), item);
  }
  sort_by_key(runtime, keyed, flag(runtime, a[0]));
  std::vector<Value> items;
  for (Keyed& entry : keyed) items.push_back(std::move(entry.second));
  return runtime.list(std::move(items));
}

Value extreme(Runtime& runtime, const Value& value, const Arguments& arguments, int sign) {
  const auto a = bind(arguments, sign < 0 ? "min" : "max", {"case_sensitive", "attribute"});
  const Key key(runtime, a[1], flag(runtime, a[0]));
  const std::vector<Keyed> keyed = with_keys(iterate(runtime, value), key);
  if (keyed.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const Keyed* best = &keyed.front();
  for (const Keyed& entry : keyed) {
    if (compare(runtime, entry.first, best->first, sign < 0 ? "<" : ">") == sign) best = &entry;
  }
  return best->second;
}

Value filter_unique(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "unique", {"case_sensitive", "attribute"});
  const Key key(runtime, a[1], flag(runtime, a[0]));
  Dict seen;
  std::vector<Value> items;
  for (auto& [k, item] : with_keys(iterate(runtime, value), key)) {
    require_hashable(k);
    if (seen.find(runtime, k) != nullptr) continue;
    seen.set(runtime, k, Value());
    items.push_back(item);
  }
  return runtime.iterator(std::move(items));
}

Value filter_groupby(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "groupby", {"attribute", "default", "case_sensitive"}, 1);
  const bool case_sensitive = flag(runtime, a[2]);
  const Key key(runtime, a[0], case_sensitive, a[1]);
  const Key exact(runtime, a[0], true, a[1]);
  std::vector<Keyed> keyed = with_keys(iterate(runtime, value), key);
  sort_by_key(runtime, keyed, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < keyed.size();) {
    const size_t begin = i;
    std::vector<Value> members;
    while (i < keyed.size() && equal(runtime, keyed[i].first, keyed[begin].first)) {
      members.push_back(keyed[i++].second);
    }
    if (members.empty()) members.push_back(keyed[i++].second);  // a key unequal to itself
    Value grouper = case_sensitive ? keyed[begin].first : exact.of(members.front());
    groups.push_back(
        Value::sequence({std::move(grouper), runtime.list(std::move(members))}, true, true));
  }
  return runtime.list(std::move(groups));
}

Value filter_sum(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "sum", {"attribute", "start"});
  const Key key(runtime, a[0], true);
  Value total = a[1] == nullptr ? Value(int64_t{0}) : *a[1];
  if (total.is_string()) throw TemplateError{"sum() can't sum strings [use ''.join(seq) instead]"};
  for (const Value& item : iterate(runtime, value)) {
    total = binary(runtime, BinaryOp::add, total, key.of(item));
  }
  return total;
}

Value filter_batch(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "batch", {"linecount", "fill_with"}, 1);
  const int64_t size = to_int(*a[0], "batch: linecount");
  if (a[1] != nullptr && !a[1]->is_none() && size > runtime.limits().range) {
    throw TemplateError{fmt::format("batch of more than {} items", runtime.limits().range)};
  }
  std::vector<Value> batches, row;
  for (Value& item : iterate(runtime, value)) {
    if (static_cast<int64_t>(row.size()) == size)
      batches.push_back(runtime.list(std::exchange(row, {})));
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    if (a[1] != nullptr && !a[1]->is_none()) {
      while (static_cast<int64_t>(row.size()) < size) row.push_back(*a[1]);
    }
    batches.push_back(runtime.list(std::move(row)));
  }
  return runtime.iterator(std::move(batches));
}

Value filter_slice(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto a = bind(arguments, "slice", {"slices", "fill_with"}, 1);
  const int64_t slices = to_int(*a[0], "slice: slices");
  if (slices == 0) throw TemplateError{"slice: slices must not be zero"};
  if (slices > runtime.limits().range)
    throw TemplateError{fmt::format("slice into more than {}", runtime.limits().range)};
  const std::vector<Value> items = iterate(runtime, value);
  std::vector<Value> columns;
  size_t begin = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const bool extra = i < static_cast<int64_t>(items.size()) % slices;
    const size_t count = items.size() / static_cast<size_t>(slices) + (extra ? 1 : 0);
    std::vector<Value> column(items.begin() + static_cast<std::ptrdiff_t>(begin),
                              items.begin() + static_cast<std::ptrdiff_t>(begin + count));
    begin += count;
    if (!extra && a[1] != nullptr && !a[1]->is_none()) column.push_back(*a[1]);
    columns.push_back(runtime.list(std::move(column)));
  }
  return runtime.iterator(std::move(columns));
}

// The arguments after the first `count` positional ones.
Arguments rest_of(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

Value filter_map(Runtime& runtime, const Value& value, const Arguments& arguments) {
  std::vector<Value> items;
  if (!truth(runtime, value)) return runtime.iterator({});
  if (arguments.positional.empty() && !arguments.named.empty()) {
    const auto a = bind(arguments, "map", {"attribute", "default"}, 1);
    const std::vector<Value> path = attribute_path(runtime, *a[0]);
    for (Value& item : iterate(runtime, value))
      items.push_back(follow(runtime, std::move(item), path, a[1]));
    return runtime.iterator(std::move(items));
  }
  if (arguments.positional.empty()) throw TemplateError{"map requires a filter argument"};
  const std::string& name = to_text(arguments.positional[0], "map: the filter");
  const FilterFunction filter = find_filter(name);
  if (filter == nullptr) throw TemplateError{fmt::format("unknown filter '{}'", name)};
  const Arguments rest = rest_of(arguments, 1);
  for (const Value& item : iterate(runtime, value)) items.push_back(filter(runtime, item, rest));
  return runtime.iterator(std::move(items));
}

// select, reject and, with an attribute first, selectattr and rejectattr.
Value choose(Runtime& runtime, const Value& value, const Arguments& arguments, bool wanted,
             bool by_attribute) {
  if (!truth(runtime, value)) return runtime.iterator({});
  const size_t skip = by_attribute ? 1 : 0;
  if (arguments.positional.size() < skip)
    throw TemplateError{"Missing parameter for attribute name"};
  std::vector<Value> path;
  if (by_attribute) path = attribute_path(runtime, arguments.positional[0]);
  TestFunction test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > skip) {
    const std::string& name = to_text(arguments.positional[skip], "the name of the test");
    test = find_test(name);
    if (test == nullptr) throw TemplateError{fmt::format("unknown test '{}'", name)};
    rest = rest_of(arguments, skip + 1);
  }
  std::vector<Value> items;
  for (Value& item : iterate(runtime, value)) {
    const Value subject = follow(runtime, item, path);
    const bool holds = test == nullptr ? truth(runtime, subject) : test(runtime, subject, rest);
    if (holds == wanted) items.push_back(std::move(item));
  }
  return runtime.iterator(std::move(items));
}

template <bool wanted, bool by_attribute>
Value filter_choose(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return choose(runtime, value, arguments, wanted, by_attribute);
}

constexpr FilterEntry kFilters[] = {
    {"length", filter_length},
    {"count", filter_length},
    {"first", filter_first},
    {"last", filter_last},
    {"list", filter_list},
    {"reverse", filter_reverse},
    {"join", filter_join},
    {"default", filter_default},
    {"d", filter_default},
    {"attr", filter_attr},
    {"items", filter_items},
    {"dictsort", filter_dictsort},
    {"sort", filter_sort},
    {"min", [](Runtime& r, const Value& v, const Arguments& a) { return extreme(r, v, a, -1); }},
    {"max", [](Runtime& r, const Value& v, const Arguments& a) { return extreme(r, v, a, 1); }},
    {"unique", filter_unique},
    {"groupby", filter_groupby},
    {"sum", filter_sum},
    {"batch", filter_batch},
    {"slice", filter_slice},
    {"map", filter_map},
    {"select", filter_choose<true, false>},
    {"reject", filter_choose<false, false>},
    {"selectattr", filter_choose<true, true>},
    {"rejectattr", filter_choose<false, true>},
};

}  // namespace

std::span<const FilterEntry> sequence_filters() { return kFilters; }

}  // namespace ringkeep::text::jinja
