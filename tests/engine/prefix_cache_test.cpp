// Reuse of prefixes: whatever is reused, the reply is the one of a cold start, bit for bit.
#include "engine/prefix_cache.h"

#include <gtest/gtest.h>

#include "engine/tiny_engine.h"

namespace ringkeep::engine::testing {
namespace {

struct Case {
  const char* name;
  CacheFlags flags;
  int64_t start = 0;  // prefixes shorter than this cannot be cut out of a longer one
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

CacheFlags flags_of(const char* bits, int64_t start = 0, int64_t size = 0, int64_t keep = 0,
                    std::optional<std::string> hot = {}) {
  CacheFlags flags;
  flags.kv_hot = std::move(hot);
  flags.kv_bits = bits;
  flags.quantized_kv_start = start;
  flags.max_kv_size = size;
  flags.keep = keep;
  flags.ctx = size > 0 ? 0 : 1024;
  flags.prefix_cache_bytes = 64 << 20;
  return flags;
}

CacheFlags cold(CacheFlags flags) {
  flags.prefix_cache_bytes = 0;
  return flags;
}

class PrefixReuse : public ::testing::TestWithParam<Case> {
 protected:
  TinyModel model_;
};

// A run of 300 tokens, then prompts that share only the beginning of it: shorter than the window,
// around it, and almost all.
TEST_P(PrefixReuse, EqualsAColdStart) {
  const CacheFlags flags = GetParam().flags;
  const std::vector<int32_t> first = random_tokens(300, 7);
  for (const int64_t shared : {1, 4, 31, 32, 33, 63, 64, 65, 200, 250, 299, 300}) {
    SCOPED_TRACE(shared);
    TinyEngine warm(model_, flags), fresh(model_, cold(flags));
    Request request = TinyEngine::request(first);
    request.snapshot_at = {64, 250, 100, 250, 900};
    EXPECT_EQ(warm.run(std::move(request)), fresh.run(TinyEngine::request(first)));

    std::vector<int32_t> second(first.begin(), first.begin() + shared);
    const auto rest = random_tokens(40, 100 + static_cast<uint32_t>(shared));
    second.insert(second.end(), rest.begin(), rest.end());
    const Reply reply = warm.run(TinyEngine::request(second));
    EXPECT_EQ(reply, fresh.run(TinyEngine::request(second)));
    // Never more than is shared; at least the last snapshot at or before it.
    EXPECT_LE(reply.stats.cached_tokens, shared);
    int64_t least = 0;
    for (const int64_t snapshot : {64, 100, 250, 299})
      if (snapshot <= shared) least = snapshot;
    EXPECT_GE(reply.stats.cached_tokens, least);
  }
}

TEST_P(PrefixReuse, TheSamePromptAndTheNextTurn) {
  const CacheFlags flags = GetParam().flags;
  TinyEngine warm(model_, flags), fresh(model_, cold(flags));
  std::vector<int32_t> prompt = random_tokens(300, 8);
  const Reply first = warm.run(TinyEngine::request(prompt));
  EXPECT_EQ(first.stats.cached_tokens, 0);
  const Reply again = warm.run(TinyEngine::request(prompt));
  EXPECT_EQ(again, first);
  EXPECT_EQ(again.stats.cached_tokens, 299);
  // The reply and one more turn; the last token of the reply was never run. Where prompts are
  // rounded more than generated rows, the reply is computed again.
  prompt.insert(prompt.end(), first.tokens.begin(), first.tokens.end());
  const auto turn = random_tokens(30, 9);
  prompt.insert(prompt.end(), turn.begin(), turn.end());
  const Reply next = warm.run(TinyEngine::request(prompt));
  EXPECT_EQ(next.stats.cached_tokens, kernels::cpu_backend().coarse_prompts ? 299 : 311);
  EXPECT_EQ(next, fresh.run(TinyEngine::request(prompt)));
}

TEST_P(PrefixReuse, InABatch) {
  CacheFlags flags = GetParam().flags;
  flags.parallel = 4;
  TinyEngine warm(model_, flags);
  const std::vector<int32_t> shared = random_tokens(150, 10);
  warm.run(TinyEngine::request(shared));
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 7; ++i) {
    std::vector<int32_t> tokens = shared;
    for (const int32_t token : random_tokens(5 + 20 * i, 20 + i)) tokens.push_back(token);
    requests.push_back(TinyEngine::request(tokens, 5 + 3 * i));
  }
  const std::vector<Reply> replies = warm.run(requests);
  TinyEngine fresh(model_, cold(GetParam().flags));
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_GE(replies[i].stats.cached_tokens, 149);
    EXPECT_EQ(replies[i], fresh.run(requests[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Caches, PrefixReuse,
    ::testing::Values(Case{"f16", flags_of("f16")}, Case{"eight", flags_of("8")},
                      Case{"four", flags_of("4")}, Case{"affine", flags_of("affine4:32")},
                      Case{"start", flags_of("4", 200)}, Case{"never", flags_of("4", 2000)},
                      Case{"bounded", flags_of("4", 0, 100, 8)},
                      Case{"hot", flags_of("3", 0, 0, 0, "f16")},
                      Case{"cold", flags_of("4", 0, 0, 0, "none")}),
    [](const auto& info) { return std::string(info.param.name); });

// Without windows or a change of format a prefix of any length can be cut out of a longer one.
TEST(PrefixCache, CutsAnUnwrappedCacheAnywhere) {
  const TinyModel model;
  TinyEngine warm(model, flags_of("8")), fresh(model, cold(flags_of("8")));
  const std::vector<int32_t> first = random_tokens(28, 3);
  warm.run(TinyEngine::request(first, 2));  // 29 rows: the window of 32 has not moved
  std::vector<int32_t> second(first.begin(), first.begin() + 11);
  second.push_back(first[11] == 5 ? 6 : 5);
  const Reply reply = warm.run(TinyEngine::request(second));
  EXPECT_EQ(reply.stats.cached_tokens, 11);
  EXPECT_EQ(reply, fresh.run(TinyEngine::request(second)));
}

TEST(PrefixCache, OtherSaltsShareNothing) {
  const TinyModel model;
  TinyEngine engine(model, flags_of("f16"));
  Request request = TinyEngine::request(random_tokens(100, 3));
  request.cache_salt = 1;
  engine.run(request);
  EXPECT_EQ(engine.run(request).stats.cached_tokens, 99);
  request.cache_salt = 2;
  EXPECT_EQ(engine.run(request).stats.cached_tokens, 0);
}

TEST(PrefixCache, TheBudgetHoldsAndTheOldestGoFirst) {
  const TinyModel model;
  CacheFlags flags = flags_of("f16");
  flags.prefix_cache_bytes = 300'000;
  TinyEngine engine(model, flags), fresh(model, cold(flags));
  const auto prompt = [](uint32_t i) { return TinyEngine::request(random_tokens(120, 50 + i)); };
  int64_t reused = 0;
  for (uint32_t i = 0; i < 20; ++i) {
    engine.run(prompt(i));
    EXPECT_LE(engine->store().snapshot_bytes(), 300'000u);
    EXPECT_GT(engine->store().snapshot_bytes(), 0u);
    reused += engine.run(prompt(0)).stats.cached_tokens > 0 ? 1 : 0;  // used again and again
  }
  EXPECT_EQ(reused, 20);
  EXPECT_EQ(engine.run(prompt(19)), fresh.run(prompt(19)));
  EXPECT_GT(engine.run(prompt(19)).stats.cached_tokens, 0);
  EXPECT_EQ(engine.run(prompt(1)).stats.cached_tokens, 0);
}

TEST(PrefixCache, ABudgetTooSmallForAnythingChangesNothing) {
  const TinyModel model;
  CacheFlags flags = flags_of("8");
  flags.prefix_cache_bytes = 1000;
  TinyEngine engine(model, flags), fresh(model, cold(flags));
  const Request request = TinyEngine::request(random_tokens(120, 5));
  EXPECT_EQ(engine.run(request), fresh.run(request));
  EXPECT_EQ(engine.run(request).stats.cached_tokens, 0);
  EXPECT_EQ(engine->store().snapshot_bytes(), 0u);
}

}  // namespace
}  // namespace ringkeep::engine::testing
