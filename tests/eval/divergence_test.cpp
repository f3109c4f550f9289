// Divergence of two rows of logits, against closed forms and a plain long double computation.
#include "eval/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace ringkeep::eval {
namespace {

std::vector<float> random_row(size_t n, unsigned seed, float width) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, width);
  std::vector<float> row(n);
  for (float& v : row) v = normal(random);
  return row;
}

long double plain_log_sum(const std::vector<float>& row) {
  long double sum = 0;
  for (const float v : row) sum += std::exp(static_cast<long double>(v));
  return std::log(sum);
}

TEST(Divergence, OfTwoCoins) {
  // (3/4, 1/4) from (1/2, 1/2): 3/4 log(3/2) + 1/4 log(1/2).
  const std::vector<float> p = {std::log(3.0f), 0.0f}, q = {5.0f, 5.0f};
  const Softmax sp = softmax(p), sq = softmax(q);
  EXPECT_NEAR(sp.log_sum, std::log(4.0), 1e-7);
  EXPECT_EQ(sp.top, 0);
  EXPECT_NEAR(kl_divergence(p, sp, q, sq), 0.75 * std::log(1.5) + 0.25 * std::log(0.5), 1e-7);
  EXPECT_NEAR(kl_divergence(q, sq, p, sp), 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25),
              1e-7);
  EXPECT_NEAR(nll(p, sp, 1), std::log(4.0), 1e-7);
}

TEST(Divergence, OfARowFromItselfAndFromAShiftedCopyIsZero) {
  for (const size_t n : {1, 7, 8, 4099}) {
    const auto row = random_row(n, 1, 4);
    auto shifted = row;
    for (float& v : shifted) v += 64.0f;  // softmax does not see it; rounding does, a little
    const Softmax s = softmax(row);
    EXPECT_LT(kl_divergence(row, s, row, s), 1e-15);
    EXPECT_LT(kl_divergence(row, s, shifted, softmax(shifted)), 1e-9) << n;
  }
}

TEST(Divergence, AgreesWithPlainArithmeticInAnySize) {
  for (const size_t n : {2, 9, 1000, 50001}) {
    const auto p = random_row(n, 2, 5), noise = random_row(n, 3, 0.02f);
    auto q = p;
    for (size_t i = 0; i < n; ++i) q[i] += noise[i];
    const long double lp = plain_log_sum(p), lq = plain_log_sum(q);
    long double expected = 0;
    for (size_t i = 0; i < n; ++i)
      expected += std::exp(static_cast<long double>(p[i]) - lp) *
                  ((static_cast<long double>(p[i]) - lp) - (static_cast<long double>(q[i]) - lq));
    const Softmax sp = softmax(p), sq = softmax(q);
    EXPECT_NEAR(sp.log_sum, static_cast<double>(lp), 1e-13 * (1 + std::fabs(sp.log_sum)));
    EXPECT_NEAR(kl_divergence(p, sp, q, sq), static_cast<double>(expected),
                1e-9 * static_cast<double>(expected) + 1e-14)
        << n;
  }
}

TEST(Divergence, FarApartLogitsNeitherOverflowNorVanish) {
  const std::vector<float> p = {3000.0f, -3000.0f, 2999.0f}, q = {-3000.0f, 3000.0f, -3000.0f};
  const Softmax sp = softmax(p), sq = softmax(q);
  EXPECT_NEAR(sp.log_sum, 3000 + std::log1p(std::exp(-1.0)), 1e-9);
  const double a = 1 / (1 + std::exp(-1.0));
  EXPECT_NEAR(kl_divergence(p, sp, q, sq), a * std::log(a) + (1 - a) * std::log(1 - a) + 6000,
              1e-6);
}

TEST(Divergence, TopIsTheFirstOfEqualLogits) {
  std::vector<float> row(100, -1.0f);
  row[37] = row[64] = 2.0f;
  EXPECT_EQ(softmax(row).top, 37);
}

}  // namespace
}  // namespace ringkeep::eval
