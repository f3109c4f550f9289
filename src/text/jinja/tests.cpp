// The tests of `x is name`.
#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace ringkeep::text::jinja {
namespace {

const Value& only(const Arguments& arguments, const char* name) {
  return *bind(arguments, name, {"other"}, 1)[0];
}

template <CompareOp op>
bool compare_with(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return compare_op(runtime, op, value, only(arguments, "this test"));
}

// value % divisor == rest
bool has_rest(Runtime& runtime, const Value& value, int64_t divisor, int64_t rest) {
  return equal(runtime, binary(runtime, BinaryOp::modulo, value, Value(divisor)), Value(rest));
}

template <bool (*wanted)(char32_t), bool (*other)(char32_t)>
bool is_case(Runtime& runtime, const Value& value, const Arguments&) {
  const std::string text = to_string(runtime, value);
  bool any = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    if (other(c) || is_title(c)) return false;
    any = any || wanted(c);
  }
  return any;
}

bool is_iterable(Runtime&, const Value& v, const Arguments&) {
  return v.is_sequence() || v.is_dict() || v.is_string() || v.is_undefined() ||
         (v.is_object() && v.as_object().iterable());
}

struct Entry {
  std::string_view name;
  TestFunction function;
};

constexpr Entry kTests[] = {
    {"defined", [](Runtime&, const Value& v, const Arguments&) { return !v.is_undefined(); }},
    {"undefined", [](Runtime&, const Value& v, const Arguments&) { return v.is_undefined(); }},
    {"none", [](Runtime&, const Value& v, const Arguments&) { return v.is_none(); }},
    {"boolean", [](Runtime&, const Value& v, const Arguments&) { return v.is_bool(); }},
    {"true", [](Runtime&, const Value& v, const Arguments&) { return v.is_bool() && v.as_bool(); }},
    {"false",
     [](Runtime&, const Value& v, const Arguments&) { return v.is_bool() && !v.as_bool(); }},
    {"integer", [](Runtime&, const Value& v, const Arguments&) { return v.is_int(); }},
    {"float", [](Runtime&, const Value& v, const Arguments&) { return v.is_float(); }},
    {"number", [](Runtime&, const Value& v, const Arguments&) { return v.is_number(); }},
    {"string", [](Runtime&, const Value& v, const Arguments&) { return v.is_string(); }},
    {"mapping", [](Runtime&, const Value& v, const Arguments&) { return v.is_dict(); }},
    {"iterable", is_iterable},
    {"sequence",
     [](Runtime&, const Value& v, const Arguments&) {
       return v.is_sequence() || v.is_dict() || v.is_string() || v.is_undefined() ||
              (v.is_object() && v.as_object().has_items() && v.as_object().iterable());
     }},
    {"callable",
     [](Runtime&, const Value& v, const Arguments&) {
       return v.is_undefined() || (v.is_object() && v.as_object().callable());
     }},
    {"escaped", [](Runtime&, const Value& v, const Arguments&) { return v.is_markup(); }},
    {"odd", [](Runtime& r, const Value& v, const Arguments&) { return has_rest(r, v, 2, 1); }},
    {"even", [](Runtime& r, const Value& v, const Arguments&) { return has_rest(r, v, 2, 0); }},
    {"divisibleby",
     [](Runtime& r, const Value& v, const Arguments& a) {
       const Value& divisor = *bind(a, "divisibleby", {"num"}, 1)[0];
       return equal(r, binary(r, BinaryOp::modulo, v, divisor), Value(int64_t{0}));
     }},
    {"lower", is_case<is_lower, is_upper>},
    {"upper", is_case<is_upper, is_lower>},
    {"sameas",
     [](Runtime&, const Value& v, const Arguments& a) { return v.identical(only(a, "sameas")); }},
    {"in", [](Runtime& r, const Value& v,
              const Arguments& a) { return contains(r, *bind(a, "in", {"seq"}, 1)[0], v); }},
    {"filter", [](Runtime&, const Value& v,
                  const Arguments&) { return v.is_string() && find_filter(v.text()) != nullptr; }},
    {"test", [](Runtime&, const Value& v,
                const Arguments&) { return v.is_string() && find_test(v.text()) != nullptr; }},
    {"eq", compare_with<CompareOp::eq>},
    {"equalto", compare_with<CompareOp::eq>},
    {"==", compare_with<CompareOp::eq>},
    {"ne", compare_with<CompareOp::ne>},
    {"!=", compare_with<CompareOp::ne>},
    {"lt", compare_with<CompareOp::lt>},
    {"lessthan", compare_with<CompareOp::lt>},
    {"<", compare_with<CompareOp::lt>},
    {"le", compare_with<CompareOp::le>},
    {"<=", compare_with<CompareOp::le>},
    {"gt", compare_with<CompareOp::gt>},
    {"greaterthan", compare_with<CompareOp::gt>},
    {">", compare_with<CompareOp::gt>},
    {"ge", compare_with<CompareOp::ge>},
    {">=", compare_with<CompareOp::ge>},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto* it = std::find_if(std::begin(kTests), std::end(kTests),
                                [&](const Entry& e) { return e.name == name; });
  return it == std::end(kTests) ? nullptr : it->function;
}

}  // namespace ringkeep::text::jinja
