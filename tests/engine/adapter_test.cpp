// Requests with different adapters in one engine: each as it is alone, and no cache of one serves
// another.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/lane.h"
#include "engine/tiny_adapter.h"
#include "engine/tiny_engine.h"

namespace ringkeep::engine::testing {
namespace {

CacheFlags flags_of(const char* bits = "8", int64_t prefix_bytes = 0) {
  CacheFlags flags;
  flags.kv_bits = bits;
  flags.ctx = 512;
  flags.parallel = 6;
  flags.prefix_cache_bytes = prefix_bytes;
  return flags;
}

class Adapters : public ::testing::Test {
 protected:
  EngineOptions options(std::vector<AdapterOption> adapters, int adapter = -1) const {
    EngineOptions options;
    options.adapters = std::move(adapters);
    options.adapter = adapter;
    return options;
  }
  // Adapters of other ranks and other matrices, the last one at another scale.
  std::vector<AdapterOption> all() const {
    return {wide_.option("wide"), values_.option("values"), half_.option("half", 0.5f)};
  }
  static Request request(size_t length, uint32_t seed, std::optional<int> adapter,
                         int64_t max_tokens = 12) {
    Request request = TinyEngine::request(random_tokens(length, seed), max_tokens);
    request.adapter = adapter;
    return request;
  }

  TinyModel model_;
  TinyAdapter wide_{11, 7}, values_{12, 4, tiny_factors(4, "v_proj")}, half_{13, 20};
};

TEST_F(Adapters, ABatchGivesWhatEachGivesAlone) {
  // Prompts of several chunks and replies side by side, with and without adapters.
  CacheFlags flags = flags_of();
  flags.chunk = 24;
  TinyEngine engine(model_, flags, options(all()));
  std::vector<Request> requests;
  for (int i = 0; i < 12; ++i)
    requests.push_back(
        request(5 + 17 * static_cast<size_t>(i), 40 + static_cast<uint32_t>(i), i % 4 - 1, 6 + i));
  const std::vector<Reply> together = engine.run(requests);
  CacheFlags alone_flags = flags_of();
  alone_flags.parallel = 1;
  alone_flags.chunk = 512;
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    const int adapter = *requests[i].adapter;
    EngineOptions alone =
        adapter < 0 ? EngineOptions() : options({all()[static_cast<size_t>(adapter)]}, 0);
    Request same = requests[i];
    same.adapter.reset();  // the engine's
    EXPECT_EQ(together[i], TinyEngine(model_, alone_flags, alone).run(same));
  }
}

TEST_F(Adapters, EachChangesTheReply) {
  TinyEngine engine(model_, flags_of(), options(all()));
  std::vector<Request> requests;
  for (const int adapter : {-1, 0, 1, 2}) requests.push_back(request(60, 5, adapter));
  const auto replies = engine.run(requests);
  for (size_t i = 0; i < replies.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(replies[i].logprobs, replies[j].logprobs) << i << j;
  // A scale of 0 adds nothing.
  TinyEngine zero(model_, flags_of(), options({wide_.option("none", 0.0f)}, 0));
  EXPECT_EQ(zero.run(TinyEngine::request(random_tokens(60, 5))), replies[0]);
}

// The prompt of one adapter is known; the same prompt through another one, or none, begins anew.
TEST_F(Adapters, NoPrefixServesAnother) {
  TinyEngine warm(model_, flags_of("8", 64 << 20), options(all()));
  TinyEngine cold(model_, flags_of(), options(all()));
  for (const int adapter : {1, -1, 0, 2}) {
    SCOPED_TRACE(adapter);
    const Request first = request(200, 6, adapter);
    const Reply fresh = cold.run(first);
    const Reply one = warm.run(first);
    EXPECT_EQ(one, fresh);
    EXPECT_EQ(one.stats.cached_tokens, 0);
    const Reply again = warm.run(first);
    EXPECT_EQ(again, fresh);
    EXPECT_EQ(again.stats.cached_tokens, 199);
  }
}

// Requests that wait for one another's prompts look at the adapter, too.
TEST_F(Adapters, NoneWaitsForThePromptOfAnother) {
  CacheFlags flags = flags_of("8", 64 << 20);
  flags.chunk = 32;
  TinyEngine engine(model_, flags, options(all())), cold(model_, flags_of(), options(all()));
  std::vector<Request> requests;
  for (const int adapter : {0, 1, 0, -1, 1, -1}) requests.push_back(request(150, 7, adapter));
  const auto replies = engine.run(requests);
  int64_t begun_anew = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(replies[i], cold.run(requests[i])) << i;
    begun_anew += replies[i].stats.cached_tokens == 0 ? 1 : 0;
  }
  EXPECT_EQ(begun_anew, 3);
}

TEST_F(Adapters, AForkHasTheAdapterOfItsPrompt) {
  TinyEngine engine(model_, flags_of(), options(all()));
  const auto leader = engine->submit(request(40, 8, 1)).value();
  Request follower = request(40, 8, 0);
  follower.fork_of = leader;
  const auto refused = engine->submit(follower);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  follower.adapter = 1;
  EXPECT_TRUE(engine->submit(follower).ok());
}

TEST_F(Adapters, AnUnknownOneIsRefused) {
  TinyEngine engine(model_, flags_of(), options(all()));
  for (const int adapter : {3, -2}) {
    const auto refused = engine->submit(request(10, 9, adapter));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  }
}

TEST_F(Adapters, SavedCachesBelongToTheirAdapter) {
  const ringkeep::testing::TempFolder folder;
  const std::string file = folder / "cache";
  CacheFlags flags = flags_of("8", 64 << 20);
  flags.save = true;
  const auto tokens = random_tokens(100, 10);
  const auto engine_with = [&](std::vector<AdapterOption> adapters) {
    const int adapter = static_cast<int>(adapters.size()) - 1;
    return TinyEngine(model_, flags, options(std::move(adapters), adapter));
  };
  auto maker = engine_with({wide_.option("one")});
  maker.run(TinyEngine::request(tokens, 1));
  ASSERT_TRUE(maker->save_cache(tokens, file).ok());

  auto same = engine_with({wide_.option("another name")});
  ASSERT_TRUE(same->load_cache(file).ok());
  std::vector<int32_t> longer = tokens;
  longer.push_back(5);
  const Reply reply = same.run(TinyEngine::request(longer));
  EXPECT_EQ(reply.stats.cached_tokens, 99);
  EXPECT_EQ(reply, maker.run(TinyEngine::request(longer)));
  for (auto adapters :
       {std::vector<AdapterOption>{}, {values_.option("one")}, {wide_.option("one", 0.5f)}}) {
    auto other = engine_with(adapters);
    const auto refused = other->load_cache(file);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::refused);
    EXPECT_NE(refused.error().message.find("adapter"), std::string::npos)
        << refused.error().message;
  }
}

// logits() and lanes go through the engine's adapter.
TEST_F(Adapters, LogitsAndLanes) {
  const auto tokens = random_tokens(70, 11);
  const auto logits = [&](Engine& engine, int64_t chunk) {
    std::vector<float> all;
    engine
        .logits(tokens, chunk, 0, 70,
                [&](int64_t, std::span<const float> row) {
                  all.insert(all.end(), row.begin(), row.end());
                })
        .value();
    return all;
  };
  TinyEngine with(model_, flags_of("f16"), options(all(), 0)), without(model_, flags_of("f16"));
  const auto expected = logits(*with, 70);
  EXPECT_NE(expected, logits(*without, 70));
  EXPECT_EQ(expected, logits(*with, 9));
  auto lane = Lane::create(*with, flags_of("f16"), false).value();
  const auto sequence = lane->open().value();
  std::vector<float> of_lane;
  lane->extend(sequence, tokens, 70,
               [&](int64_t, int64_t rows, const float* values) {
                 of_lane.insert(of_lane.end(), values, values + rows * kVocab);
               })
      .value();
  EXPECT_EQ(of_lane, expected);
}

}  // namespace
}  // namespace ringkeep::engine::testing
