// The functions that every template sees.
#include <fmt/format.h>

#include <ctime>

#include "text/jinja/objects.h"

namespace ringkeep::text::jinja {
namespace {

Value make_range(Runtime& runtime, const Value&, const Arguments& arguments) {
  const auto a = bind(arguments, "range", {"start", "stop", "step"}, 1);
  int64_t start = to_int(*a[0], "range: each argument"), stop = 0, step = 1;
  if (a[1] == nullptr) {
    stop = std::exchange(start, 0);
  } else {
    stop = to_int(*a[1], "range: each argument");
  }
  if (a[2] != nullptr) step = to_int(*a[2], "range: each argument");
  if (step == 0) throw TemplateError{"range() arg 3 must not be zero"};
  __int128 count = 0;
  if (step > 0 && start < stop) count = (static_cast<__int128>(stop) - start - 1) / step + 1;
  if (step < 0 && start > stop)
    count = (static_cast<__int128>(start) - stop - 1) / -static_cast<__int128>(step) + 1;
  if (count > runtime.limits().range) {
    throw TemplateError{fmt::format("range() of more than {} items", runtime.limits().range)};
  }
  return Value(ObjectPtr(std::make_shared<Range>(start, stop, step, static_cast<int64_t>(count))));
}

// dict(mapping or pairs, name=value, ...)
Dict collect(Runtime& runtime, const char* function, const Arguments& arguments) {
  Dict result;
  if (arguments.positional.size() > 1) {
    throw TemplateError{fmt::format("{}() takes at most 1 positional argument, got {}", function,
                                    arguments.positional.size())};
  }
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_dict()) {
      for (const auto& [key, value] : source.as_dict().entries()) result.set(runtime, key, value);
    } else {
      for (const Value& pair : iterate(runtime, source)) {
        std::vector<Value> items = iterate(runtime, pair);
        if (items.size() != 2) {
          throw TemplateError{
              fmt::format("{}(): expected pairs, found {} items", function, items.size())};
        }
        require_hashable(items[0]);
        result.set(runtime, std::move(items[0]), std::move(items[1]));
      }
    }
  }
  for (const auto& [name, value] : arguments.named)
    result.set(runtime, runtime.string(name), value);
  return result;
}

Value make_dict(Runtime& runtime, const Value&, const Arguments& arguments) {
  return runtime.dict(collect(runtime, "dict", arguments));
}

Value make_namespace(Runtime& runtime, const Value&, const Arguments& arguments) {
  const auto ns = std::make_shared<Namespace>();
  runtime.own(ns, [](void* n) { static_cast<Namespace*>(n)->clear(); });
  const Dict values = collect(runtime, "namespace", arguments);
  for (const auto& [key, value] : values.entries())
    ns->set(runtime, to_text(key, "namespace: a name"), value);
  return Value(ObjectPtr(ns));
}

Value make_joiner(Runtime& runtime, const Value&, const Arguments& arguments) {
  const auto a = bind(arguments, "joiner", {"sep"});
  return Value(
      ObjectPtr(std::make_shared<Joiner>(a[0] == nullptr ? ", " : to_text(*a[0], "joiner: sep"))));
}

Value make_cycler(Runtime& runtime, const Value&, const Arguments& arguments) {
  runtime.allocate(
      static_cast<int64_t>(sizeof(Cycler) + arguments.positional.size() * sizeof(Value)));
  return Value(ObjectPtr(std::make_shared<Cycler>(arguments.positional)));
}

Value raise_exception(Runtime& runtime, const Value&, const Arguments& arguments) {
  throw TemplateError{to_string(runtime, *bind(arguments, "raise_exception", {"message"}, 1)[0]),
                      true};
}

Value strftime_now(Runtime& runtime, const Value&, const Arguments& arguments) {
  const std::string& format =
      to_text(*bind(arguments, "strftime_now", {"format"}, 1)[0], "strftime_now: format");
  constexpr size_t kMost = 1000;
  if (format.size() > kMost)
    throw TemplateError{fmt::format("strftime_now: a format of more than {} bytes", kMost)};
  if (format.empty()) return runtime.string("");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::string out(16 * kMost, '\0');
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &local));
  return runtime.string(std::move(out));
}

struct Global {
  const char* name;
  Function::Body body;
};

constexpr Global kGlobals[] = {
    {"range", make_range},          {"dict", make_dict},     {"namespace", make_namespace},
    {"joiner", make_joiner},        {"cycler", make_cycler}, {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

}  // namespace

std::optional<Value> find_global(std::string_view name) {
  for (const Global& global : kGlobals) {
    if (name == global.name)
      return Value(ObjectPtr(std::make_shared<Function>(global.name, global.body)));
  }
  return std::nullopt;
}

}  // namespace ringkeep::text::jinja
