// Folding the K balance into the norm weights equals applying it to the normed heads; scores stay.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "weights/balance.h"

namespace ringkeep::weights {
namespace {

std::vector<float> normed(std::vector<float> x, const std::vector<float>& weight) {
  double sum = 0;
  for (const float v : x) sum += v * v;
  const float scale =
      static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(x.size()) + 1e-6));
  for (size_t i = 0; i < x.size(); ++i) x[i] *= scale * weight[i];
  return x;
}

std::vector<float> rotated(std::vector<float> x, int pairs, float position) {
  for (int i = 0; i < pairs; ++i) {
    const float angle =
        position * std::pow(10000.0f, -static_cast<float>(i) / static_cast<float>(pairs));
    const float a = x[static_cast<size_t>(i)], b = x[static_cast<size_t>(i + pairs)];
    x[static_cast<size_t>(i)] = a * std::cos(angle) - b * std::sin(angle);
    x[static_cast<size_t>(i + pairs)] = b * std::cos(angle) + a * std::sin(angle);
  }
  return x;
}

class Balance : public testing::TestWithParam<int> {};  // rotary_dim of 64

TEST_P(Balance, FoldedEqualsExplicitAndScoresStay) {
  const int dim = 64, rotary = GetParam(), pairs = rotary / 2;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> wq(dim), wk(dim), q(dim), k(dim);
  for (int i = 0; i < dim; ++i) {
    wq[static_cast<size_t>(i)] = std::exp(normal(random));
    wk[static_cast<size_t>(i)] = std::exp(2 * normal(random));
    q[static_cast<size_t>(i)] = normal(random);
    k[static_cast<size_t>(i)] = normal(random);
  }
  wk[5] = wk[static_cast<size_t>(5 < pairs ? 5 + pairs : 5)] = 0.0f;  // weights that are exactly 0
  const auto c = key_balance(wq, wk, rotary);

  double log_sum = 0;
  for (int i = 0; i < dim; ++i) {
    ASSERT_TRUE(std::isfinite(c[static_cast<size_t>(i)]) && c[static_cast<size_t>(i)] > 0);
    log_sum += std::log(c[static_cast<size_t>(i)]);
    if (i < pairs) {
      EXPECT_EQ(c[static_cast<size_t>(i)], c[static_cast<size_t>(i + pairs)]);
    }
  }
  EXPECT_NEAR(log_sum / dim, 0.0, 1e-5);

  auto fq = wq, fk = wk;
  for (int i = 0; i < dim; ++i) {
    fq[static_cast<size_t>(i)] /= c[static_cast<size_t>(i)];
    fk[static_cast<size_t>(i)] *= c[static_cast<size_t>(i)];
  }
  const auto plain_q = rotated(normed(q, wq), pairs, 37),
             plain_k = rotated(normed(k, wk), pairs, 11);
  const auto fold_q = rotated(normed(q, fq), pairs, 37), fold_k = rotated(normed(k, fk), pairs, 11);
  double plain = 0, folded = 0, size = 0;
  for (int i = 0; i < dim; ++i) {
    const auto j = static_cast<size_t>(i);
    EXPECT_NEAR(fold_k[j], plain_k[j] * c[j], 1e-4f * (1 + std::fabs(fold_k[j])));  // c after RoPE
    plain += plain_q[j] * plain_k[j];
    folded += fold_q[j] * fold_k[j];
    size += std::fabs(plain_q[j] * plain_k[j]);
  }
  EXPECT_NEAR(folded, plain, 1e-5 * size);
}

INSTANTIATE_TEST_SUITE_P(RotaryDims, Balance, testing::Values(64, 32, 0));

}  // namespace
}  // namespace ringkeep::weights
