// Methods of strings, lists, tuples and dictionaries.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "text/jinja/objects.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_functions.h"
#include "text/jinja/unicode.h"

namespace ringkeep::text::jinja {
namespace {

using MethodBody = Function::Body;

Value same_kind(Runtime& runtime, const Value& self, std::string text) {
  return runtime.string(std::move(text), self.is_markup());
}

template <Side side>
Value do_strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, "strip", {"chars"});
  return same_kind(runtime, self, strip(self.text(), optional_text(a[0], "strip: chars"), side));
}

template <std::string (*convert)(std::string_view)>
Value do_case(Runtime& runtime, const Value& self, const Arguments& arguments) {
  bind(arguments, "this method", {});
  return same_kind(runtime, self, convert(self.text()));
}

// True when there is a character and all of them are of the class.
template <bool (*of_class)(char32_t)>
Value do_all(Runtime&, const Value& self, const Arguments& arguments) {
  bind(arguments, "this method", {});
  const std::vector<char32_t> points = code_points(self.text());
  return Value(!points.empty() && std::all_of(points.begin(), points.end(), of_class));
}

bool alphanumeric(char32_t c) { return is_alpha(c) || is_numeric(c); }

// True when every cased character is of the one case, and there is one.
template <bool (*wanted)(char32_t), bool (*other)(char32_t)>
Value do_is_case(Runtime&, const Value& self, const Arguments& arguments) {
  bind(arguments, "this method", {});
  bool any = false;
  for (size_t pos = 0; pos < self.text().size();) {
    const char32_t c = next_code_point(self.text(), pos);
    if (other(c) || is_title(c)) return Value(false);
    any = any || wanted(c);
  }
  return Value(any);
}

Value is_title_text(Runtime&, const Value& self, const Arguments& arguments) {
  bind(arguments, "istitle", {});
  bool any = false, inside = false;
  for (size_t pos = 0; pos < self.text().size();) {
    const char32_t c = next_code_point(self.text(), pos);
    const bool capital = is_upper(c) || is_title(c);
    if (capital ? inside : is_lower(c) && !inside) return Value(false);
    inside = capital || is_lower(c);
    any = any || inside;
  }
  return Value(any);
}

Value split(Runtime& runtime, const Value& self, const Arguments& arguments, bool from_right) {
  const auto a = bind(arguments, from_right ? "rsplit" : "split", {"sep", "maxsplit"});
  const auto separator = optional_text(a[0], "split: sep");
  int64_t most = a[1] == nullptr ? -1 : to_int(*a[1], "split: maxsplit");
  if (most < 0) most = INT64_MAX;
  if (separator && separator->empty()) throw TemplateError{"empty separator"};
  const std::string& text = self.text();
  std::vector<std::string_view> parts;
  const std::string_view view = text;
  if (separator && !from_right) {
    size_t begin = 0;
    for (size_t found; most > 0 && (found = view.find(*separator, begin)) != std::string_view::npos;
         --most) {
      parts.push_back(view.substr(begin, found - begin));
      begin = found + separator->size();
    }
    parts.push_back(view.substr(begin));
  } else if (separator) {
    size_t end = view.size();
    while (most > 0 && end >= separator->size()) {
      const size_t found = view.rfind(*separator, end - separator->size());
      if (found == std::string_view::npos) break;
      parts.push_back(view.substr(found + separator->size(), end - found - separator->size()));
      end = found;
      --most;
    }
    parts.push_back(view.substr(0, end));
    std::reverse(parts.begin(), parts.end());
  } else {
    std::vector<std::pair<size_t, size_t>> words;  // [begin, end)
    bool inside = false;
    for (size_t pos = 0; pos < view.size();) {
      const size_t begin = pos;
      const bool space = is_space(next_code_point(view, pos));
      if (!space && !inside) words.emplace_back(begin, pos);
      if (!space) words.back().second = pos;
      inside = !space;
    }
    const size_t count = words.size();
    if (static_cast<uint64_t>(most) < count) {  // the rest in one piece, up to the very end
      const auto kept = static_cast<size_t>(most);
      if (from_right) {
        words[count - kept - 1].first = 0;
        words.erase(words.begin(), words.end() - static_cast<std::ptrdiff_t>(kept + 1));
      } else {
        words[kept].second = view.size();
        words.resize(kept + 1);
      }
    }
    for (const auto& [begin, end] : words) parts.push_back(view.substr(begin, end - begin));
  }
  runtime.step(static_cast<int64_t>(parts.size()));
  std::vector<Value> items;
  for (const std::string_view part : parts)
    items.push_back(same_kind(runtime, self, std::string(part)));
  return runtime.list(std::move(items));
}

Value partition(Runtime& runtime, const Value& self, const Arguments& arguments, bool from_right) {
  const auto a = bind(arguments, from_right ? "rpartition" : "partition", {"sep"}, 1);
  const std::string& separator = to_text(*a[0], "partition: sep");
  if (separator.empty()) throw TemplateError{"empty separator"};
  const std::string& text = self.text();
  const size_t found = from_right ? text.rfind(separator) : text.find(separator);
  std::string parts[3];
  if (found == std::string::npos) {
    parts[from_right ? 2 : 0] = text;
  } else {
    parts[0] = text.substr(0, found);
    parts[1] = separator;
    parts[2] = text.substr(found + separator.size());
  }
  std::vector<Value> items;
  for (std::string& part : parts) items.push_back(same_kind(runtime, self, std::move(part)));
  return runtime.tuple(std::move(items));
}

// The bytes of self[start:end] in code points, and where they begin.
std::string_view section(Runtime& runtime, const Value& self, const Value* start, const Value* end,
                         int64_t& first, bool& empty_range) {
  const int64_t size = length(runtime, self);
  const auto clamp = [&](const Value* bound, int64_t missing) {
    if (bound == nullptr || bound->is_none()) return missing;
    int64_t i = to_int(*bound, "an index");
    if (i < 0) i = std::max<int64_t>(i < -size ? 0 : i + size, 0);
    return i;
  };
  first = clamp(start, 0);
  const int64_t last = std::min(clamp(end, size), size);
  empty_range = first > last;
  if (empty_range) return {};
  const std::string& text = self.text();
  size_t pos = 0;
  for (int64_t i = 0; i < first; ++i) next_code_point(text, pos);
  const size_t begin = pos;
  for (int64_t i = first; i < last; ++i) next_code_point(text, pos);
  return std::string_view(text).substr(begin, pos - begin);
}

template <bool at_end>
Value affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const char* name = at_end ? "endswith" : "startswith";
  const auto a = bind(arguments, name, {"prefix", "start", "end"}, 1);
  int64_t first = 0;
  bool empty_range = false;
  const std::string_view text = section(runtime, self, a[1], a[2], first, empty_range);
  const auto matches = [&](const Value& affix_value) {
    const std::string& s = to_text(affix_value, name);
    return !empty_range && (at_end ? text.ends_with(s) : text.starts_with(s));
  };
  if (!a[0]->is_tuple()) return Value(matches(*a[0]));
  const auto& choices = a[0]->as_sequence().items;
  return Value(std::any_of(choices.begin(), choices.end(), matches));
}

template <bool from_right, bool must_exist>
Value find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const char* name =
      must_exist ? (from_right ? "rindex" : "index") : (from_right ? "rfind" : "find");
  const auto a = bind(arguments, name, {"sub", "start", "end"}, 1);
  const std::string& wanted = to_text(*a[0], name);
  int64_t first = 0;
  bool empty_range = false;
  const std::string_view text = section(runtime, self, a[1], a[2], first, empty_range);
  size_t found = std::string_view::npos;
  if (!empty_range) found = from_right ? text.rfind(wanted) : text.find(wanted);
  if (found == std::string_view::npos) {
    if (must_exist) throw TemplateError{"substring not found"};
    return Value(int64_t{-1});
  }
  const Value before = Value::string(std::string(text.substr(0, found)));
  return Value(first + length(runtime, before));
}

Value count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, "count", {"sub", "start", "end"}, 1);
  const std::string& wanted = to_text(*a[0], "count");
  int64_t first = 0;
  bool empty_range = false;
  const std::string_view text = section(runtime, self, a[1], a[2], first, empty_range);
  if (empty_range) return Value(int64_t{0});
  if (wanted.empty()) return Value(length(runtime, Value::string(std::string(text))) + 1);
  int64_t total = 0;
  for (size_t pos = 0; (pos = text.find(wanted, pos)) != std::string_view::npos;
       pos += wanted.size())
    ++total;
  return Value(total);
}

Value replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, "replace", {"old", "new", "count"}, 2);
  const int64_t times = a[2] == nullptr ? -1 : to_int(*a[2], "replace: count");
  return same_kind(runtime, self,
                   replace_text(runtime, self.text(), to_text(*a[0], "replace: old"),
                                to_text(*a[1], "replace: new"), times));
}

Value join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, "join", {"iterable"}, 1);
  std::string out;
  bool first = true;
  for (const Value& item : iterate(runtime, *a[0])) {
    if (!first) out += self.text();
    first = false;
    out += to_text(item, "join: each item");
    if (static_cast<int64_t>(out.size()) > runtime.limits().output) break;  // string() refuses it
  }
  return same_kind(runtime, self, std::move(out));
}

template <Align align>
Value justify(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, "this method", {"width", "fillchar"}, 1);
  char32_t fill = ' ';
  if (a[1] != nullptr) {
    const auto points = code_points(to_text(*a[1], "fillchar"));
    if (points.size() != 1)
      throw TemplateError{"The fill character must be exactly one character long"};
    fill = points[0];
  }
  return same_kind(runtime, self, pad(runtime, self, to_int(*a[0], "width"), fill, align));
}

Value zfill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, "zfill", {"width"}, 1);
  const std::string& text = self.text();
  const bool sign = text.starts_with('-') || text.starts_with('+');
  const int64_t width = to_int(*a[0], "zfill: width") - (sign ? 1 : 0);
  const Value digits = Value::string(text.substr(sign ? 1 : 0));
  return same_kind(runtime, self,
                   text.substr(0, sign ? 1 : 0) + pad(runtime, digits, width, '0', Align::right));
}

template <bool at_end>
Value remove_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, at_end ? "removesuffix" : "removeprefix", {"affix"}, 1);
  const std::string& text = self.text();
  const std::string& affix_text = to_text(*a[0], "the affix");
  if (at_end ? !text.ends_with(affix_text) : !text.starts_with(affix_text)) return self;
  return same_kind(
      runtime, self,
      at_end ? text.substr(0, text.size() - affix_text.size()) : text.substr(affix_text.size()));
}

Value splitlines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, "splitlines", {"keepends"});
  std::vector<Value> items;
  for (std::string& line : split_lines(self.text(), a[0] != nullptr && truth(runtime, *a[0]))) {
    items.push_back(same_kind(runtime, self, std::move(line)));
  }
  runtime.step(static_cast<int64_t>(items.size()));
  return runtime.list(std::move(items));
}

Value ascii(Runtime&, const Value& self, const Arguments& arguments) {
  bind(arguments, "isascii", {});
  return Value(is_ascii(self.text()));
}

Value expand_tabs(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, "expandtabs", {"tabsize"});
  const int64_t size = a[0] == nullptr ? 8 : to_int(*a[0], "expandtabs: tabsize");
  if (size > 1024) throw TemplateError{"expandtabs: tabsize must be at most 1024"};
  std::string out;
  int64_t column = 0;
  for (size_t pos = 0; pos < self.text().size();) {
    const char32_t c = next_code_point(self.text(), pos);
    if (c != '\t') {
      append_code_point(out, c);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    } else if (size > 0) {
      const int64_t spaces = size - column % size;
      out.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
    }
  }
  return same_kind(runtime, self, std::move(out));
}

// ---- lists and tuples ----

Value sequence_count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, "count", {"value"}, 1);
  const auto& items = self.as_sequence().items;
  return Value(static_cast<int64_t>(std::count_if(
      items.begin(), items.end(), [&](const Value& v) { return equal(runtime, v, *a[0]); })));
}

Value sequence_index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, "index", {"value", "start", "stop"}, 1);
  const auto& items = self.as_sequence().items;
  const auto size = static_cast<int64_t>(items.size());
  const auto clamp = [&](const Value* bound, int64_t missing) {
    if (bound == nullptr) return missing;
    const int64_t i = to_int(*bound, "index");
    return std::clamp<int64_t>(i < 0 ? std::max(i, -size) + size : i, 0, size);
  };
  const int64_t stop = clamp(a[2], size);
  for (int64_t i = clamp(a[1], 0); i < stop; ++i) {
    if (equal(runtime, items[static_cast<size_t>(i)], *a[0])) return Value(i);
  }
  throw TemplateError{fmt::format("{} is not in {}", repr(runtime, *a[0]), type_name(self))};
}

Value sequence_copy(Runtime&, const Value& self, const Arguments& arguments) {
  bind(arguments, "copy", {});
  return self;  // nothing can change either of them
}

// ---- dictionaries ----

template <DictView::Kind kind>
Value dict_view(Runtime& runtime, const Value& self, const Arguments& arguments) {
  bind(arguments, "this method", {});
  runtime.allocate(sizeof(DictView));
  return Value(ObjectPtr(std::make_shared<DictView>(self, kind)));
}

Value dict_get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, "get", {"key", "default"}, 1);
  require_hashable(*a[0]);
  const Value* value = self.as_dict().find(runtime, *a[0]);
  if (value != nullptr) return *value;
  return a[1] == nullptr ? Value() : *a[1];
}

Value is_integer(Runtime&, const Value& self, const Arguments& arguments) {
  bind(arguments, "is_integer", {});
  const double d = self.as_double();
  return Value(std::isfinite(d) && std::floor(d) == d);
}

struct Method {
  std::string_view name;
  MethodBody body;
};

constexpr Method kStringMethods[] = {
    {"strip", do_strip<Side::both>},
    {"lstrip", do_strip<Side::left>},
    {"rstrip", do_strip<Side::right>},
    {"split", [](Runtime& r, const Value& s, const Arguments& a) { return split(r, s, a, false); }},
    {"rsplit", [](Runtime& r, const Value& s, const Arguments& a) { return split(r, s, a, true); }},
    {"partition",
     [](Runtime& r, const Value& s, const Arguments& a) { return partition(r, s, a, false); }},
    {"rpartition",
     [](Runtime& r, const Value& s, const Arguments& a) { return partition(r, s, a, true); }},
    {"splitlines", splitlines},
    {"startswith", affix<false>},
    {"endswith", affix<true>},
    {"upper", do_case<to_upper>},
    {"lower", do_case<to_lower>},
    {"title", do_case<title_words>},
    {"capitalize", do_case<capitalize>},
    {"swapcase", do_case<swap_case>},
    {"replace", replace},
    {"find", find<false, false>},
    {"rfind", find<true, false>},
    {"index", find<false, true>},
    {"rindex", find<true, true>},
    {"count", count},
    {"join", join},
    {"center", justify<Align::center>},
    {"ljust", justify<Align::left>},
    {"rjust", justify<Align::right>},
    {"zfill", zfill},
    {"expandtabs", expand_tabs},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"isalpha", do_all<is_alpha>},
    {"isalnum", do_all<alphanumeric>},
    {"isdigit", do_all<is_digit>},
    {"isdecimal", do_all<is_decimal>},
    {"isnumeric", do_all<is_numeric>},
    {"isspace", do_all<is_space>},
    {"isupper", do_is_case<is_upper, is_lower>},
    {"islower", do_is_case<is_lower, is_upper>},
    {"istitle", is_title_text},
    {"isascii", ascii},
};

constexpr Method kSequenceMethods[] = {{"count", sequence_count}, {"index", sequence_index}};
constexpr Method kListMethods[] = {{"copy", sequence_copy}};
constexpr Method kDictMethods[] = {
    {"keys", dict_view<DictView::Kind::keys>},
    {"values", dict_view<DictView::Kind::values>},
    {"items", dict_view<DictView::Kind::items>},
    {"get", dict_get},
    {"copy", sequence_copy},
};
constexpr Method kFloatMethods[] = {{"is_integer", is_integer}};

template <size_t n>
MethodBody look_up(const Method (&methods)[n], std::string_view name) {
  const auto* it = std::find_if(std::begin(methods), std::end(methods),
                                [&](const Method& m) { return m.name == name; });
  return it == std::end(methods) ? nullptr : it->body;
}

}  // namespace

std::optional<Value> find_method(Runtime& runtime, const Value& self, std::string_view name) {
  MethodBody body = nullptr;
  if (self.is_string()) {
    body = look_up(kStringMethods, name);
  } else if (self.is_dict()) {
    body = look_up(kDictMethods, name);
  } else if (self.is_sequence()) {
    body = look_up(kSequenceMethods, name);
    if (body == nullptr && self.is_list()) body = look_up(kListMethods, name);
  } else if (self.is_float()) {
    body = look_up(kFloatMethods, name);
  }
  if (body == nullptr) return std::nullopt;
  runtime.allocate(sizeof(Function));
  return Value(ObjectPtr(std::make_shared<Function>(std::string(name), body, self)));
}

}  // namespace ringkeep::text::jinja
