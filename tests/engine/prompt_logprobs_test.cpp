// Log-probabilities of a prompt's tokens: those of the teacher-forced logits, whatever else runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/tiny_engine.h"

namespace ringkeep::engine {
namespace {

using testing::kVocab;
using testing::random_tokens;
using testing::TinyEngine;
using testing::TinyModel;

CacheFlags flags_of(int64_t chunk, int64_t prefix_bytes = 0) {
  CacheFlags flags;
  flags.kv_bits = "8";
  flags.ctx = 256;
  flags.chunk = chunk;
  flags.parallel = 3;
  flags.prefix_cache_bytes = prefix_bytes;
  return flags;
}

const TinyModel& tiny() {
  static const TinyModel model;
  return model;
}

Request request_of(const std::vector<int32_t>& tokens, int top, int64_t most = 4) {
  Request request = TinyEngine::request(tokens, most);
  request.prompt_logprobs = top;
  request.ignore_eos = true;
  return request;
}

struct Told {
  std::vector<Sampled> prompt;
  int times = 0;
  std::vector<int32_t> tokens;
  FinishReason finish = FinishReason::none;
};

// Of one of the requests; the others only keep it company.
Told run(TinyEngine& engine, std::vector<Request> requests, size_t which = 0) {
  std::vector<int64_t> ids;
  for (Request& request : requests) {
    if (request.fork_of < 0) request.fork_of = ids.front();
    ids.push_back(engine->submit(std::move(request)).value());
  }
  Told told;
  while (!engine->idle())
    for (Event& event : engine->step()) {
      EXPECT_FALSE(event.error.has_value()) << event.error->message;
      if (event.id != ids[which]) continue;
      if (event.prompt_logprobs) {
        EXPECT_TRUE(told.tokens.empty()) << "they come first";
        told.prompt = std::move(*event.prompt_logprobs);
        ++told.times;
      }
      told.tokens.insert(told.tokens.end(), event.tokens.begin(), event.tokens.end());
      told.finish = event.finish;
    }
  return told;
}
Told run(TinyEngine& engine, const Request& request) {
  return run(engine, std::vector<Request>{request});
}

bool same(const std::vector<Sampled>& a, const std::vector<Sampled>& b) {
  return std::ranges::equal(a, b, [](const Sampled& x, const Sampled& y) {
    return x.token == y.token && x.logprob == y.logprob && x.top.size() == y.top.size() &&
           std::ranges::equal(x.top, y.top, [](const TokenLogprob& p, const TokenLogprob& q) {
             return p.token == q.token && p.logprob == q.logprob;
           });
  });
}

TEST(PromptLogprobs, AreThoseOfTheLogits) {
  const auto tokens = random_tokens(100, 5);
  TinyEngine engine(tiny(), flags_of(32));
  std::vector<std::vector<double>> expected;  // [position][token]
  ASSERT_TRUE(engine
                  ->logits(tokens, 32, 0, 100,
                           [&](int64_t, std::span<const float> logits) {
                             double sum = 0.0;
                             for (const float logit : logits) sum += std::exp(double{logit});
                             std::vector<double>& row = expected.emplace_back();
                             for (const float logit : logits)
                               row.push_back(double{logit} - std::log(sum));
                           })
                  .ok());
  const Told told = run(engine, request_of(tokens, 3));
  ASSERT_EQ(told.prompt.size(), 99u);
  EXPECT_EQ(told.times, 1);
  EXPECT_EQ(told.tokens.size(), 4u);
  for (size_t i = 0; i < told.prompt.size(); ++i) {
    const Sampled& sampled = told.prompt[i];
    ASSERT_EQ(sampled.token, tokens[i + 1]) << i;
    EXPECT_NEAR(sampled.logprob, expected[i][static_cast<size_t>(sampled.token)], 1e-5) << i;
    std::vector<double> best = expected[i];
    std::ranges::sort(best, std::greater());
    ASSERT_EQ(sampled.top.size(), 3u);
    for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(sampled.top[k].logprob, best[k], 1e-5) << i;
  }
}

TEST(PromptLogprobs, DoNotDependOnChunksCompanyOrWhatIsCached) {
  const auto tokens = random_tokens(150, 6);
  TinyEngine first(tiny(), flags_of(150));
  const Told expected = run(first, request_of(tokens, 1));
  ASSERT_EQ(expected.prompt.size(), 149u);

  TinyEngine engine(tiny(), flags_of(17, 1 << 22));
  engine.run(TinyEngine::request(tokens));  // the prefix cache knows the prompt now
  std::vector<Request> requests = {request_of(tokens, 1),
                                   TinyEngine::request(random_tokens(90, 7), 20),
                                   TinyEngine::request(tokens, 9)};
  requests[2].fork_of = -1;
  const Told told = run(engine, requests);
  EXPECT_TRUE(same(told.prompt, expected.prompt));
  EXPECT_EQ(told.tokens, expected.tokens);
  EXPECT_EQ(told.times, 1);
}

TEST(PromptLogprobs, ComeWithoutAReplyToo) {
  const auto tokens = random_tokens(70, 8);
  TinyEngine engine(tiny(), flags_of(32));
  const Told with = run(engine, request_of(tokens, 2));
  std::vector<Request> requests = {request_of(tokens, 2, 0), TinyEngine::request(tokens, 0)};
  requests[1].fork_of = -1;
  const Told without = run(engine, requests);
  EXPECT_TRUE(same(with.prompt, without.prompt));
  EXPECT_TRUE(without.tokens.empty());
  EXPECT_EQ(without.finish, FinishReason::length);
  EXPECT_EQ(engine->store().bytes_used(), 0u);

  const Told one = run(engine, request_of({2}, 0, 0));  // nothing follows its first token
  EXPECT_EQ(one.times, 1);
  EXPECT_TRUE(one.prompt.empty());
}

// The cache has no place for both replies, so that the younger one is set back and runs its prompt
// again: what it told already it does not tell again.
TEST(PromptLogprobs, SurviveBeingSetBack) {
  const auto tokens = random_tokens(60, 9);
  TinyEngine roomy(tiny(), flags_of(32));
  const Told expected = run(roomy, request_of(tokens, 1, 150));
  CacheFlags small = flags_of(32);
  small.kv_memory = roomy->plan().kv_bytes / 2;
  TinyEngine engine(tiny(), small, {.reserve_tokens = 16});
  const Told told =
      run(engine, {TinyEngine::request(random_tokens(60, 10), 150), request_of(tokens, 1, 150)}, 1);
  EXPECT_GT(engine->serving().preemptions, 0);
  EXPECT_TRUE(same(told.prompt, expected.prompt));
  EXPECT_EQ(told.times, 1);
  EXPECT_EQ(told.tokens, expected.tokens);
}

TEST(PromptLogprobs, WantTheWholePromptRun) {
  TinyEngine engine(tiny(), flags_of(32));
  const int64_t leader = engine->submit(request_of({2, 5}, 0)).value();
  Request follower = request_of({2, 5}, 0);
  follower.fork_of = leader;
  const auto refused = engine->submit(follower);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace ringkeep::engine
