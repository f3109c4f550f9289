#include "eval/divergence.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace ringkeep::eval {
namespace {

// Independent sums that the compiler can keep in vectors; added up in a fixed order.
constexpr size_t kLanes = 8;
using Sums = std::array<double, kLanes>;

double total(const Sums& sums) {
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

// exp(x) for x <= 0 without branches, so that loops over it vectorize (std::exp does not without
// fast-math): x = k log 2 + r with |r| <= log(2) / 2, Taylor to r^12 (remainder below 2e-16).
// Where exp(x) < 1e-304 the result is below that too.
inline double exp_negative(double x) {
  constexpr double kLog2e = 0x1.71547652b82fep0;
  constexpr double kLn2High = 0x1.62e42fefa0000p-1;  // trailing zeros: k * high is exact
  constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;
  constexpr double kRound = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
  x = x < -700.0 ? -700.0 : x;
  const double shifted = x * kLog2e + kRound;
  const double k = shifted - kRound;
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double y = 1.0 / 479001600.0;
  y = y * r + 1.0 / 39916800.0;
  y = y * r + 1.0 / 3628800.0;
  y = y * r + 1.0 / 362880.0;
  y = y * r + 1.0 / 40320.0;
  y = y * r + 1.0 / 5040.0;
  y = y * r + 1.0 / 720.0;
  y = y * r + 1.0 / 120.0;
  y = y * r + 1.0 / 24.0;
  y = y * r + 1.0 / 6.0;
  y = y * r + 0.5;
  y = y * r + 1.0;
  y = y * r + 1.0;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(y) +
                               (std::bit_cast<uint64_t>(shifted) << 52));
}

}  // namespace

Softmax softmax(std::span<const float> logits) {
  const size_t n = logits.size();
  const size_t whole = n - n % kLanes;
  std::array<float, kLanes> tops;
  tops.fill(logits[0]);
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t j = 0; j < kLanes; ++j) tops[j] = std::max(tops[j], logits[i + j]);
  float top = *std::max_element(tops.begin(), tops.end());
  for (size_t i = whole; i < n; ++i) top = std::max(top, logits[i]);

  Sums sums{};
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t j = 0; j < kLanes; ++j)
      sums[j] += exp_negative(static_cast<double>(logits[i + j]) - static_cast<double>(top));
  for (size_t i = whole; i < n; ++i)
    sums[i - whole] += exp_negative(static_cast<double>(logits[i]) - static_cast<double>(top));
  const auto at = std::find(logits.begin(), logits.end(), top);
  return {.log_sum = static_cast<double>(top) + std::log(total(sums)),
          .top = static_cast<int32_t>(at - logits.begin())};
}

double kl_divergence(std::span<const float> p, const Softmax& p_softmax, std::span<const float> q,
                     const Softmax& q_softmax) {
  const size_t n = p.size();
  const size_t whole = n - n % kLanes;
  const double offset = q_softmax.log_sum - p_softmax.log_sum;
  const auto term = [&](size_t i) {
    const auto a = static_cast<double>(p[i]);
    return exp_negative(a - p_softmax.log_sum) * (a - static_cast<double>(q[i]) + offset);
  };
  Sums sums{};
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t j = 0; j < kLanes; ++j) sums[j] += term(i + j);
  for (size_t i = whole; i < n; ++i) sums[i - whole] += term(i);
  return std::max(0.0, total(sums));  // never negative but for rounding
}

}  // namespace ringkeep::eval
