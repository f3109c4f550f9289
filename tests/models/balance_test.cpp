// Folding the K balance into the norm weights equals applying it to the normed heads; scores stay.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
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

// Against what random inputs make of the heads: projection, RMS norm, weights.
TEST(ExpectedChannels, AreThoseOfInputsInNoParticularDirection) {
  const int64_t heads = 3, dim = 32, cols = 64, draws = 20000;
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  std::vector<float> matrix(static_cast<size_t>(heads * dim * cols)), input(cols), weights(dim);
  for (int64_t r = 0; r < heads * dim; ++r) {
    const float size = std::exp(normal(random));  // rows of unlike lengths, heads too
    for (int64_t i = 0; i < cols; ++i)
      matrix[static_cast<size_t>(r * cols + i)] =
          size * normal(random) * static_cast<float>(1 + r / dim);
  }
  for (float& x : input) x = std::exp(0.5f * normal(random));
  for (float& x : weights) x = std::exp(normal(random));
  const quant::SourceTensor tensor{.name = "q",
                                   .type = quant::SourceType::f32,
                                   .shape = {heads * dim, cols},
                                   .data = reinterpret_cast<const std::byte*>(matrix.data()),
                                   .bytes = matrix.size() * sizeof(float)};
  ThreadPool pool(2);
  const auto channels = expected_channels(row_lengths(tensor, input, pool), weights);

  std::vector<double> squares(dim);
  std::vector<float> x(cols), head(dim);
  for (int64_t n = 0; n < draws; ++n) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = input[i] * normal(random);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t d = 0; d < dim; ++d)
        head[static_cast<size_t>(d)] =
            std::inner_product(x.begin(), x.end(), matrix.begin() + (h * dim + d) * cols, 0.0f);
      const auto y = normed(head, weights);
      for (size_t d = 0; d < y.size(); ++d) squares[d] += double{y[d]} * y[d];
    }
  }
  // The norm divides by each draw's own length, not by the mean one: what is left differs a little.
  for (size_t d = 0; d < channels.size(); ++d) {
    const double measured = std::sqrt(squares[d] / static_cast<double>(heads * draws));
    EXPECT_NEAR(channels[d], measured, 0.2 * measured) << d;
  }
}

INSTANTIATE_TEST_SUITE_P(RotaryDims, Balance, testing::Values(64, 32, 0));

}  // namespace
}  // namespace ringkeep::weights
