#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "engine/sampling.h"

namespace ringkeep::engine {
namespace {

SamplingParams plain(float temperature = 1.0f) {
  SamplingParams p;
  p.temperature = temperature;
  p.top_k = 0;
  p.top_p = 1.0f;
  p.min_p = 0.0f;
  return p;
}

using History = std::vector<int32_t>;

// How often each token is drawn.
std::map<int32_t, int> draws(const SamplingParams& params, const std::vector<float>& logits,
                             int count, const History& prompt = {}, const History& output = {}) {
  Sampler sampler(params);
  std::map<int32_t, int> counts;
  for (int i = 0; i < count; ++i) {
    std::vector<float> copy = logits;
    counts[sampler.sample(copy, prompt, output).value().token]++;
  }
  return counts;
}

int32_t greedy(SamplingParams params, std::vector<float> logits, const History& prompt = {},
               const History& output = {}) {
  params.temperature = 0.0f;
  return Sampler(params).sample(logits, prompt, output).value().token;
}

std::vector<int32_t> support(const SamplingParams& params, const std::vector<float>& logits) {
  std::vector<int32_t> tokens;
  for (const auto& [token, count] : draws(params, logits, 2000)) tokens.push_back(token);
  return tokens;
}

std::vector<uint64_t> mask_of(size_t vocab, std::initializer_list<size_t> tokens) {
  std::vector<uint64_t> mask((vocab + 63) / 64);
  for (const size_t token : tokens) mask[token / 64] |= uint64_t{1} << (token % 64);
  return mask;
}

// A token that is forbidden is never sampled, however large its logit, its bias or the negative
// penalty that lifts it; log-probabilities are those of the softmax over all tokens.
TEST(Sampler, AConstraintComesFirst) {
  std::vector<float> logits(130, 0.0f);
  logits[7] = 90.0f;
  const auto allow = mask_of(130, {3, 64, 129});
  for (const float temperature : {0.0f, 1.0f, 100.0f})
    for (const int k : {0, 1, 2, 40, 2000}) {
      SamplingParams p = plain(temperature);
      p.top_k = k;
      p.top_p = k == 2 ? 0.9f : 1.0f;
      p.min_p = k == 40 ? 0.2f : 0.0f;
      p.logit_bias = {{7, 100.0f}, {64, 0.25f}};
      p.presence_penalty = -2.0f;
      p.repetition_penalty = 1.5f;
      Sampler sampler(p);
      std::map<int32_t, int> counts;
      for (int i = 0; i < 300; ++i) {
        std::vector<float> copy = logits;
        const Sampled sampled = sampler.sample(copy, {}, History{7, 8}, 2, allow).value();
        ++counts[sampled.token];
        EXPECT_EQ(sampled.top[0].token, 7);
        EXPECT_FLOAT_EQ(sampled.logprob, -90.0f);
      }
      const bool one = temperature == 0.0f || k == 1;
      EXPECT_EQ(counts.count(64), 1u);
      EXPECT_EQ(counts.size(), one ? 1u : k == 2 ? 2u : 3u) << temperature << ", k " << k;
      for (const auto& [token, count] : counts)
        EXPECT_TRUE(token == 3 || token == 64 || token == 129) << token;
    }
}

TEST(Sampler, AConstraintThatLetsNothingFollowIsAnError) {
  std::vector<float> logits(130, 0.0f);
  const auto nothing = mask_of(130, {});
  const auto sampled = Sampler(plain()).sample(logits, {}, History{5}, -1, nothing);
  ASSERT_FALSE(sampled.ok());
  EXPECT_EQ(sampled.error().kind, ErrorKind::runtime);
  EXPECT_THAT(sampled.error().message, ::testing::HasSubstr("no token follow at step 1"));
}

TEST(Sampler, GreedyTakesTheLowestIdOfTheLargest) {
  std::vector<float> logits(1000, -1.0f);
  logits[700] = logits[333] = 2.5f;
  EXPECT_EQ(greedy(plain(), logits), 333);
  EXPECT_EQ(greedy(plain(), {-5.0f, -3.0f, -4.0f}), 1);
  SamplingParams cold = plain(9e-6f);
  EXPECT_EQ(support(cold, {1.0f, 1.0001f}), (std::vector<int32_t>{1}));
}

// Truncation looks at the distribution at temperature 1; the temperature comes last.
TEST(Sampler, TemperatureIsLast) {
  SamplingParams p = plain(0.5f);
  p.top_p =
      0.8f;  // shares 0.665, 0.245, 0.090: two are needed. Divided first, one would do (0.867)
  EXPECT_EQ(support(p, {3, 2, 1}), (std::vector<int32_t>{0, 1}));
  p = plain(2.0f);
  p.min_p = 0.1f;  // ratios 1, 0.37, 0.135, 0.0498; divided first, the last would be 0.22
  EXPECT_EQ(support(p, {3, 2, 1, 0}), (std::vector<int32_t>{0, 1, 2}));
}

TEST(Sampler, TopPIsTheSmallestSetThatReachesIt) {
  SamplingParams p = plain();
  p.top_p = 0.6f;
  EXPECT_EQ(support(p, {3, 2, 1}), (std::vector<int32_t>{0}));
  p.top_p = 0.0f;
  EXPECT_EQ(support(p, {1, 1, 1}), (std::vector<int32_t>{0}));
  // Renormalized after top-k: 0.731 of two.
  p.top_k = 2;
  p.top_p = 0.7f;
  EXPECT_EQ(support(p, {3, 2, 1}), (std::vector<int32_t>{0}));
}

// Against sorting everything: the chosen sets of a large vocabulary, for many shapes.
TEST(Sampler, TopPOfManyEqualsSorting) {
  std::mt19937_64 random(7);
  for (const float spread : {0.0f, 0.1f, 1.0f, 4.0f}) {
    std::vector<float> logits(3000);
    for (float& l : logits)
      l = spread * static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-53 * 6 - 3);
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return logits[a] > logits[b]; });
    double total = 0, sum = 0;
    for (const float l : logits) total += std::exp(l);
    SamplingParams p = plain(1.0f);
    p.top_p = 0.3f;
    size_t kept = 0;
    while (sum < 0.3 * total) sum += std::exp(logits[order[kept++]]);
    const auto counts = draws(p, logits, 400);
    for (const auto& [token, count] : counts) {
      const auto rank =
          static_cast<size_t>(std::find(order.begin(), order.end(), token) - order.begin());
      EXPECT_LT(rank, kept + 1) << "spread " << spread;
    }
    EXPECT_GT(counts.size(), std::min<size_t>(kept, 400) / 8) << "spread " << spread;
  }
}

TEST(Sampler, TopKKeepsTheLargest) {
  std::vector<float> logits(5000);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>((i * 2654435761u) % 5000) * 1e-4f;
  std::vector<float> sorted = logits;
  std::sort(sorted.rbegin(), sorted.rend());
  for (const int k : {1, 3, 40, 2000}) {  // by heap and by partial selection
    SamplingParams p = plain(100.0f);
    p.top_k = k;
    const auto counts = draws(p, logits, 3000);
    for (const auto& [token, count] : counts) EXPECT_GE(logits[token], sorted[k - 1]) << k;
    EXPECT_GE(counts.size(), std::min(k, 1000)) << k;
  }
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  const int n = 40000;
  auto counts = draws(plain(), logits, n);
  EXPECT_NEAR(counts[0], 0.5 * n, 500);  // 5 standard deviations
  EXPECT_NEAR(counts[1], 0.3 * n, 460);
  EXPECT_NEAR(counts[2], 0.2 * n, 400);
  counts = draws(plain(0.5f), logits, n);  // squares: 25 : 9 : 4
  EXPECT_NEAR(counts[0], 25.0 / 38 * n, 480);
  EXPECT_NEAR(counts[2], 4.0 / 38 * n, 310);
}

// The same on every platform: the generator is fixed by the standard, the rest is integers.
TEST(Sampler, SeededDrawsAreFixed) {
  std::vector<float> logits(100);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = 0.02f * static_cast<float>(i);
  SamplingParams p = plain();
  p.seed = 42;
  const auto sequence = [&] {
    Sampler sampler(p);
    History tokens;
    for (int i = 0; i < 8; ++i) {
      std::vector<float> copy = logits;
      tokens.push_back(sampler.sample(copy, {}, {}).value().token);
    }
    return tokens;
  };
  const History first = sequence();
  EXPECT_EQ(sequence(), first);
  // From the distribution function itself, with the standard's generator.
  std::mt19937_64 random(42);
  double total = 0;
  for (const float l : logits) total += std::exp(static_cast<double>(l));
  for (const int32_t token : first) {
    double u = static_cast<double>(random()) * 0x1p-64 * total;
    int32_t expected = 0;
    while (u >= std::exp(static_cast<double>(logits[expected])))
      u -= std::exp(static_cast<double>(logits[expected++]));
    EXPECT_EQ(token, expected);
  }
  p.seed = 43;
  EXPECT_NE(sequence(), first);
}

// The whole history counts, the prompt too, at any distance.
TEST(Sampler, RepetitionPenaltyLooksAtTheWholeHistory) {
  SamplingParams p = plain();
  p.repetition_penalty = 2.0f;
  for (const size_t distance : {1, 10, 20, 21, 25, 63, 64, 65, 5000}) {
    History history(distance, 3);
    history.front() = 0;
    EXPECT_EQ(greedy(p, {4.0f, 3.0f, -9.0f, -9.0f}, history, {}), 1) << distance;
    EXPECT_EQ(greedy(p, {4.0f, 3.0f, -9.0f, -9.0f}, {}, history), 1) << distance;
  }
  EXPECT_EQ(greedy(p, {4.0f, 3.0f}, {}, {}), 0);
  EXPECT_EQ(greedy(p, {-1.0f, -1.5f}, {0, 0, 0}, {}), 1);  // negative logits: times 2, once
  EXPECT_EQ(greedy(p, {-1.0f, -2.5f}, {0, 0, 0}, {}), 0);
  EXPECT_EQ(greedy(p, {4.0f, 3.0f}, {-1, 2, 1 << 30}, {}), 0);  // ids without a logit
}

TEST(Sampler, PresenceAndFrequencyLookAtTheOutputOnly) {
  SamplingParams p = plain();
  p.presence_penalty = 1.5f;
  EXPECT_EQ(greedy(p, {4.0f, 3.0f}, {0, 0}, {}), 0);
  EXPECT_EQ(greedy(p, {4.0f, 3.0f}, {}, {0}), 1);
  EXPECT_EQ(greedy(p, {4.0f, 2.0f}, {}, {0, 0, 0}), 0);
  p = plain();
  p.frequency_penalty = 0.6f;
  EXPECT_EQ(greedy(p, {4.0f, 3.0f}, {0, 0}, {0}), 0);
  EXPECT_EQ(greedy(p, {4.0f, 3.0f}, {}, {0, 0}), 1);
}

TEST(Sampler, BiasForcesAndBans) {
  SamplingParams p = plain();
  p.logit_bias = {{2, 100.0f}};
  EXPECT_EQ(support(p, {30.0f, 0.0f, -20.0f}), (std::vector<int32_t>{2}));
  p.logit_bias = {{0, -100.0f}};
  EXPECT_EQ(support(p, {30.0f, 0.0f, -20.0f}), (std::vector<int32_t>{1}));
}

TEST(Sampler, LogprobsAreOfTheRawSoftmax) {
  SamplingParams p = plain(0.0f);
  p.logit_bias = {{2, 100.0f}};
  p.repetition_penalty = 1.7f;
  std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  const Sampled s = Sampler(p).sample(logits, History{0}, {}, 2).value();
  EXPECT_EQ(s.token, 2);
  EXPECT_NEAR(s.logprob, std::log(0.2), 1e-6);
  ASSERT_EQ(s.top.size(), 2u);
  EXPECT_EQ(s.top[0].token, 0);
  EXPECT_NEAR(s.top[0].logprob, std::log(0.5), 1e-6);
  EXPECT_EQ(s.top[1].token, 1);
  EXPECT_NEAR(s.top[1].logprob, std::log(0.3), 1e-6);
  std::vector<float> few = {0.0f, 0.0f};
  EXPECT_EQ(Sampler(plain()).sample(few, {}, {}, 20).value().top.size(), 2u);
}

TEST(Sampler, NonFiniteLogitsAreAnErrorNamingTokenAndStep) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (const int32_t token : {0, 15, 16, 500, 1002}) {
      std::vector<float> logits(1003, 1.0f);
      logits[static_cast<size_t>(token)] = bad;
      const auto result = Sampler(plain()).sample(logits, {}, History{1, 2, 3});
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.error().kind, ErrorKind::runtime);
      EXPECT_THAT(result.error().message, testing::HasSubstr(fmt::format("token {} ", token)));
      EXPECT_THAT(result.error().message, testing::HasSubstr("step 3"));
    }
  }
}

TEST(Sampler, ValidateNamesParameterAndValue) {
  EXPECT_TRUE(validate(SamplingParams{}, 10).ok());
  const auto refused = [](auto change, const char* name) {
    SamplingParams p;
    change(p);
    const Status status = validate(p, 10);
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_EQ(status.error().kind, ErrorKind::usage);
    EXPECT_THAT(status.error().message, testing::StartsWith(name));
  };
  for (const float bad : {NAN, INFINITY, -INFINITY, -3.0f, 101.0f}) {
    refused([&](auto& p) { p.temperature = bad; }, "temperature");
    refused([&](auto& p) { p.top_p = bad; }, "top_p");
    refused([&](auto& p) { p.min_p = bad; }, "min_p");
    refused([&](auto& p) { p.repetition_penalty = bad; }, "repetition_penalty");
    refused([&](auto& p) { p.presence_penalty = bad; }, "presence_penalty");
    refused([&](auto& p) { p.frequency_penalty = bad; }, "frequency_penalty");
  }
  refused([](auto& p) { p.repetition_penalty = 0.0f; }, "repetition_penalty");
  for (const int32_t token : {-1, 10, 99999999}) {
    refused([&](auto& p) { p.logit_bias = {{token, 5.0f}}; }, "logit_bias");
  }
  for (const float bias : {NAN, INFINITY, 1e30f, 100.5f, -101.0f}) {
    refused([&](auto& p) { p.logit_bias = {{5, bias}}; }, "logit_bias");
  }
}

}  // namespace
}  // namespace ringkeep::engine
