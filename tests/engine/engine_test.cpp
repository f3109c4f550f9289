// The engine with several generations at once, on a tiny random model.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <map>

#include "kernels/select/select.h"
#include "models/tiny_model.h"

namespace ringkeep::engine {
namespace {

using ringkeep::testing::kVocab;
using ringkeep::testing::layer_of;
using ringkeep::testing::random_tokens;
using ringkeep::testing::TinyModel;
using ringkeep::testing::Tokens;

struct Loaded {
  Loaded(const TinyModel& tiny, const CacheFlags& cache)
      : device(kernels::make_cpu_device(2)), ops(kernels::cpu_backend()) {
    EngineOptions options;
    options.cache = cache;
    engine = Engine::load(tiny.open(), options, ops, *device).value();
  }
  std::unique_ptr<kernels::Device> device;
  kernels::Ops ops;
  std::unique_ptr<Engine> engine;
};

struct Outcome {
  Tokens tokens;
  FinishReason finish = FinishReason::none;
  std::string error;
  bool operator==(const Outcome&) const = default;
};

// Steps until all is done; what became of each generation.
std::map<int64_t, Outcome> finish_all(Engine& engine) {
  std::map<int64_t, Outcome> outcomes;
  for (int step = 0; !engine.idle(); ++step) {
    RK_CHECK(step < 10000, "the engine does not come to an end");
    for (Event& event : engine.step()) {
      Outcome& outcome = outcomes[event.id];
      outcome.tokens.insert(outcome.tokens.end(), event.tokens.begin(), event.tokens.end());
      if (event.finish != FinishReason::none) outcome.finish = event.finish;
      if (event.error) outcome.error = event.error->message;
    }
  }
  return outcomes;
}

Request request_of(Tokens tokens, int64_t most, float temperature = 0.0f, uint64_t seed = 0) {
  Request request;
  request.tokens = std::move(tokens);
  request.max_tokens = most;
  request.sampling.temperature = temperature;
  request.sampling.seed = seed;
  return request;
}

const TinyModel& hybrid() {
  static const TinyModel tiny({layer_of(LayerKind::sliding, 40), layer_of(LayerKind::full),
                               layer_of(LayerKind::sliding, 3)});
  return tiny;
}

CacheFlags flags_of(const char* codec, int parallel) {
  CacheFlags flags;
  flags.kv_bits = codec;
  flags.ctx = 256;
  flags.chunk = 32;
  flags.parallel = parallel;
  return flags;
}

// Four at once, each asking for more than the context holds; two more wait for a place. All end
// with "length", hold what they would hold alone, and give their pages back.
TEST(Engine, AFullContextEndsCleanlyAndOthersAreUntouched) {
  std::mt19937 random(1);
  std::vector<Request> requests;
  for (const size_t length : {5u, 77u, 130u, 255u, 254u, 1u})
    requests.push_back(request_of(random_tokens(length, random), 400,
                                  requests.size() % 2 == 0 ? 0.0f : 0.9f, requests.size()));
  for (const char* codec : {"f16", "8", "4"}) {
    Loaded many(hybrid(), flags_of(codec, 4)), one(hybrid(), flags_of(codec, 1));
    std::vector<int64_t> ids;
    for (const Request& request : requests) ids.push_back(many.engine->submit(request).value());
    const auto outcomes = finish_all(*many.engine);
    EXPECT_EQ(many.engine->store().bytes_used(), 0u);
    EXPECT_FALSE(many.engine->submit(request_of(random_tokens(256, random), 1)).ok());
    for (size_t i = 0; i < requests.size(); ++i) {
      const Outcome& outcome = outcomes.at(ids[i]);
      EXPECT_EQ(outcome.error, "");
      EXPECT_EQ(outcome.finish, FinishReason::length);
      EXPECT_EQ(requests[i].tokens.size() + outcome.tokens.size(), 256u);
      const int64_t id = one.engine->submit(requests[i]).value();
      EXPECT_EQ(finish_all(*one.engine).at(id), outcome) << codec << ", request " << i;
    }
  }
}

TEST(Engine, CancelGivesThePlaceAndThePagesBack) {
  Loaded loaded(hybrid(), flags_of("4", 1));
  std::mt19937 random(2);
  const Request request = request_of(random_tokens(60, random), 20);
  const int64_t alone = loaded.engine->submit(request).value();
  const Outcome expected = finish_all(*loaded.engine).at(alone);

  const int64_t running = loaded.engine->submit(request_of(random_tokens(100, random), 50)).value();
  const int64_t waiting = loaded.engine->submit(request).value();
  for (int step = 0; step < 2; ++step) loaded.engine->step();  // in the middle of the prompt
  EXPECT_GT(loaded.engine->store().bytes_used(), 0u);
  loaded.engine->cancel(running);
  EXPECT_EQ(loaded.engine->store().bytes_used(), 0u);
  EXPECT_EQ(finish_all(*loaded.engine).at(waiting), expected);
}

// By token history, not by what the cache still holds: a token far outside every window counts, and
// so does one of the prompt.
TEST(Engine, RepetitionPenaltySeesWhatTheRingHasDropped) {
  const TinyModel tiny({layer_of(LayerKind::sliding, 4), layer_of(LayerKind::full)});
  CacheFlags flags = flags_of("4", 1);
  flags.max_kv_size = 16;
  Loaded loaded(tiny, flags);
  constexpr int32_t kSeen = 7, kOther = 8;
  for (const size_t distance : {10u, 20u, 21u, 25u, 63u, 64u, 65u, 500u}) {
    for (const bool seen : {true, false}) {
      Tokens prompt(distance, 20);
      prompt[0] = seen ? kSeen : 21;
      Request request = request_of(prompt, 1);
      // Bias lifts kSeen to 100 or so; a penalty of 2 halves it to below the 75 of kOther.
      request.sampling.logit_bias = {{kSeen, 100.0f}, {kOther, 75.0f}};
      request.sampling.repetition_penalty = 2.0f;
      const int64_t id = loaded.engine->submit(request).value();
      EXPECT_EQ(finish_all(*loaded.engine).at(id).tokens, Tokens{seen ? kOther : kSeen})
          << "distance " << distance;
    }
  }
}

TEST(Engine, SubmitRefusesWhatItCannotRun) {
  Loaded loaded(hybrid(), flags_of("8", 2));
  EXPECT_EQ(loaded.engine->submit(request_of({}, 1)).error().kind, ErrorKind::usage);
  EXPECT_EQ(loaded.engine->submit(request_of({-1}, 1)).error().kind, ErrorKind::usage);
  EXPECT_EQ(loaded.engine->submit(request_of({kVocab}, 1)).error().kind, ErrorKind::usage);
  EXPECT_EQ(loaded.engine->submit(request_of(Tokens(257, 5), 1)).error().kind, ErrorKind::input);
  Request request = request_of({5}, 1);
  request.sampling.logit_bias = {{kVocab, 1.0f}};
  EXPECT_EQ(loaded.engine->submit(request).error().kind, ErrorKind::usage);
  EXPECT_TRUE(loaded.engine->idle());
}

// Teacher-forced logits stop at the next step when asked to, and leave the store empty.
TEST(Engine, LogitsCanBeStopped) {
  Loaded loaded(hybrid(), flags_of("8", 1));
  int rows = 0;
  const auto status = loaded.engine->logits(
      Tokens(200, 5), 10, 0, 200, [&](int64_t, std::span<const float>) { ++rows; },
      [&] { return rows >= 30; });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(rows, 30);
  EXPECT_EQ(loaded.engine->store().bytes_used(), 0u);
}

}  // namespace
}  // namespace ringkeep::engine
