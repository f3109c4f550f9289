// Ranges of numbers as expressions over their decimal digits.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "grammar/expr.h"

namespace ringkeep::grammar {

// A number exactly as a JSON text writes it.
struct Decimal {
  bool negative = false;
  std::string whole = "0";  // digits, no leading zero
  std::string fraction;     // digits, no trailing zero

  bool is_zero() const { return whole == "0" && fraction.empty(); }
  std::string text() const;
};
int compare(const Decimal& a, const Decimal& b);  // -1, 0, 1
// None of numbers beyond 10^300 or below 10^-300 (other than 0).
std::optional<Decimal> decimal(const nlohmann::ordered_json& number);

struct Bound {
  Decimal at;
  bool exclusive = false;
};

// Integers without fraction or exponent, exactly those in the range. Up to 19 digits, or as many
// as a bound has.
ExprId integers(ExprPool& pool, const std::optional<Bound>& low, const std::optional<Bound>& high);
// Numbers without exponent, exactly those in the range; up to 17 digits after the point, or as
// many as a bound has.
ExprId numbers(ExprPool& pool, const std::optional<Bound>& low, const std::optional<Bound>& high);

}  // namespace ringkeep::grammar
