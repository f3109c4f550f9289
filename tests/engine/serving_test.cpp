// Many requests at once in a cache that is too small for them: every answer equals the same request
// alone, nobody fails, and nothing is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "engine/engine.h"
#include "kernels/select/select.h"
#include "models/tiny_model.h"

namespace ringkeep::engine {
namespace {

using ringkeep::testing::kVocab;
using ringkeep::testing::layer_of;
using ringkeep::testing::random_tokens;
using ringkeep::testing::TinyModel;
using ringkeep::testing::Tokens;
using ::testing::HasSubstr;

const TinyModel& hybrid() {
  static const TinyModel tiny({layer_of(LayerKind::sliding, 40), layer_of(LayerKind::full),
                               layer_of(LayerKind::sliding, 3)});
  return tiny;
}

CacheFlags flags_of(const char* codec, int parallel, int64_t prefix_bytes = 0) {
  CacheFlags flags;
  flags.kv_bits = codec;
  flags.ctx = 512;
  flags.chunk = 32;
  flags.parallel = parallel;
  flags.prefix_cache_bytes = prefix_bytes;
  return flags;
}

struct Reply {
  Tokens tokens;
  std::vector<float> logprobs;  // for bitwise comparison
  FinishReason finish = FinishReason::none;
  std::string error;
  bool operator==(const Reply&) const = default;
};

class Server {
 public:
  explicit Server(const CacheFlags& cache, EngineOptions options = {},
                  const TinyModel& model = hybrid())
      : device_(kernels::make_cpu_device(2)), ops_(kernels::cpu_backend()) {
    options.cache = cache;
    engine_ = Engine::load(model.open(), options, ops_, *device_).value();
  }
  Engine* operator->() { return engine_.get(); }

  int64_t submit(const Request& request) { return engine_->submit(request).value(); }
  // One step; what came is added to the replies. The ids of those that ended.
  std::vector<int64_t> step() {
    std::vector<int64_t> ended;
    for (Event& event : engine_->step()) {
      Reply& reply = replies[event.id];
      reply.tokens.insert(reply.tokens.end(), event.tokens.begin(), event.tokens.end());
      for (const Sampled& sampled : event.logprobs) reply.logprobs.push_back(sampled.logprob);
      if (event.error) reply.error = event.error->message;
      reply.finish = event.finish;
      if (event.error || event.finish != FinishReason::none) ended.push_back(event.id);
    }
    for (const auto& usage : engine_->store().usage())
      EXPECT_LE(usage.pages_owned, usage.pages_total);
    return ended;
  }
  void finish_all() {
    for (int steps = 0; !engine_->idle(); ++steps) {
      RK_CHECK(steps < 100000, "the engine does not come to an end");
      step();
    }
  }
  Reply run(const Request& request) {
    const int64_t id = submit(request);
    finish_all();
    return replies.at(id);
  }
  // Pages in use are those that snapshots hold.
  void expect_nothing_left() {
    for (const auto& usage : engine_->store().usage()) {
      EXPECT_EQ(usage.pages_used, usage.pages_held);
      EXPECT_EQ(usage.pages_owned, 0);
    }
    EXPECT_EQ(engine_->serving().running, 0);
    EXPECT_EQ(engine_->serving().waiting, 0);
  }

  std::map<int64_t, Reply> replies;

 private:
  std::unique_ptr<kernels::Device> device_;
  kernels::Ops ops_;
  std::unique_ptr<Engine> engine_;
};

size_t pool_of(const CacheFlags& flags) {
  const auto plan = kv::make_plan(hybrid().open().config, flags, kernels::cpu_backend()).value();
  return plan.kv_bytes + plan.kv_prefill_bytes;
}

// Room for one whole sequence and `share` of what the others would have.
CacheFlags small(CacheFlags flags, double share) {
  CacheFlags one = flags;
  one.parallel = 1;
  const double least = static_cast<double>(pool_of(one)),
               whole = static_cast<double>(pool_of(flags));
  flags.kv_memory = static_cast<size_t>(least + share * (whole - least));
  return flags;
}

Request request_of(Tokens tokens, int64_t most, bool greedy, uint64_t seed) {
  Request request;
  request.tokens = std::move(tokens);
  request.max_tokens = most;
  request.sampling.temperature = greedy ? 0.0f : 1.0f;
  request.sampling.repetition_penalty = greedy ? 1.0f : 1.2f;
  request.sampling.seed = seed;
  request.top_logprobs = 0;
  return request;
}

// Mixed lengths, some with a common beginning; every second greedy.
std::vector<Request> mixed_requests(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  const Tokens common = random_tokens(150, random);
  std::vector<Request> requests;
  for (size_t i = 0; i < count; ++i) {
    Tokens tokens = random_tokens(1 + random() % (i % 7 == 0 ? 300 : 60), random);
    if (i % 3 == 0) tokens.insert(tokens.begin(), common.begin(), common.end());
    requests.push_back(
        request_of(std::move(tokens), i % 5 == 0 ? -1 : 1 + random() % 100, i % 2 == 0, i));
    if (requests.back().max_tokens < 0) requests.back().max_tokens = 150;
    if (i % 3 == 0) requests.back().snapshot_at = {150};
  }
  return requests;
}

struct Case {
  const char* name;
  CacheFlags flags;
  int64_t reserve;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

CacheFlags with_start(CacheFlags flags, int64_t start) {
  flags.quantized_kv_start = start;
  return flags;
}

class ManyAtOnce : public ::testing::TestWithParam<Case> {};

TEST_P(ManyAtOnce, EveryAnswerIsTheOneOfTheRequestAlone) {
  const auto requests = mixed_requests(32, 5);
  CacheFlags one = GetParam().flags;
  one.parallel = 1;
  one.kv_memory = 0;
  one.prefix_cache_bytes = 0;
  Server alone(one);
  EngineOptions options;
  options.reserve_tokens = GetParam().reserve;
  Server many(GetParam().flags, options);
  std::vector<int64_t> ids;
  for (const Request& request : requests) ids.push_back(many.submit(request));
  many.finish_all();
  for (size_t i = 0; i < requests.size(); ++i) {
    const Reply& reply = many.replies.at(ids[i]);
    EXPECT_EQ(reply.error, "") << i;
    EXPECT_EQ(reply, alone.run(requests[i])) << i;
    EXPECT_EQ(many->stats(ids[i]).generated_tokens, static_cast<int64_t>(reply.tokens.size()));
  }
  many.expect_nothing_left();
  const ServingStats stats = many->serving();
  EXPECT_EQ(stats.preemptions > 0, GetParam().flags.kv_memory > 0);
  // A small prefix cache may have lost what was kept before anybody came to use it.
  const int64_t prefix_bytes = GetParam().flags.prefix_cache_bytes;
  EXPECT_TRUE(stats.prefix_hits > 0 ? prefix_bytes > 0 : prefix_bytes < 1 << 20);
  int64_t prompt = 0;
  for (const Request& request : requests) prompt += static_cast<int64_t>(request.tokens.size());
  EXPECT_EQ(stats.prompt_tokens, prompt);
}

INSTANTIATE_TEST_SUITE_P(
    Caches, ManyAtOnce,
    ::testing::Values(Case{"whole", flags_of("8", 32), 1024},
                      Case{"eight", small(flags_of("8", 32), 0.1), 16},
                      Case{"four", small(flags_of("4", 32), 0.1), 16},
                      Case{"f16", small(flags_of("f16", 8), 0.0), 0},
                      Case{"start", small(with_start(flags_of("4", 16), 100), 0.1), 8},
                      Case{"prefixes", small(flags_of("8", 32, 1 << 20), 0.1), 16},
                      Case{"fewprefixes", small(flags_of("4", 32, 100'000), 0.05), 1},
                      Case{"allprefixes", flags_of("4", 32, 1 << 24), 1024}),
    [](const auto& info) { return std::string(info.param.name); });

// Cancelled at any moment: within the call its pages are free, and the others do not notice.
TEST(Serving, CancelStorms) {
  for (const int64_t prefix_bytes : {0, 200'000}) {
    const CacheFlags flags = small(flags_of("4", 16, prefix_bytes), 0.1);
    EngineOptions options;
    options.reserve_tokens = 8;
    Server many(flags, options), alone(flags_of("4", 1));
    std::mt19937 random(3);
    const auto requests = mixed_requests(120, 9);
    std::map<int64_t, size_t> running;
    std::vector<int64_t> kept;
    size_t next = 0;
    while (next < requests.size() || !many->idle()) {
      for (size_t n = random() % 3; n > 0 && next < requests.size(); --n, ++next)
        running[many.submit(requests[next])] = next;
      for (const int64_t id : many.step()) {
        EXPECT_EQ(many.replies[id].error, "");
        EXPECT_EQ(many.replies[id], alone.run(requests[running.at(id)]));
        running.erase(id);
        kept.push_back(id);
      }
      if (!running.empty() && random() % 6 == 0) {
        const auto victim = std::next(running.begin(), random() % running.size());
        const auto before = many->serving();
        many->cancel(victim->first);
        const auto after = many->serving();
        EXPECT_EQ(after.running + after.waiting, before.running + before.waiting - 1);
        running.erase(victim);
      }
    }
    EXPECT_GT(kept.size(), 5u);
    EXPECT_LT(kept.size(), requests.size());
    many.expect_nothing_left();
  }
}

// n > 1: the prompt is computed once, and each goes on as if alone.
TEST(Serving, ForksShareTheRowsOfThePrompt) {
  std::mt19937 random(4);
  const Tokens prompt = random_tokens(201, random);
  for (const int64_t prefix_bytes : {0, 1 << 20}) {
    Server many(flags_of("4", 8, prefix_bytes)), alone(flags_of("4", 1));
    int64_t leader = 0;
    std::vector<Request> requests;
    std::vector<int64_t> ids;
    for (uint64_t i = 0; i < 5; ++i) {
      Request request = request_of(prompt, 40 + static_cast<int64_t>(i), false, i);
      requests.push_back(request);
      request.fork_of = leader;
      ids.push_back(many.submit(request));
      if (i == 0) leader = ids[0];
    }
    many.finish_all();
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(many.replies[ids[i]], alone.run(requests[i])) << i;
      EXPECT_EQ(many->stats(ids[i]).cached_tokens, i == 0 ? 0 : 201);
    }
    EXPECT_EQ(many->serving().cached_tokens, 4 * 201);
    many.expect_nothing_left();
  }
}

// Whatever becomes of the first one, the others come to their answers.
TEST(Serving, ForksOutliveTheirLeader) {
  std::mt19937 random(5);
  const Tokens prompt = random_tokens(150, random);
  Server alone(flags_of("4", 1));
  const Request plain = request_of(prompt, 30, true, 0);
  const Reply expected = alone.run(plain);
  for (const int steps : {0, 1, 3, 5, 8, 20})
    for (const bool tight : {false, true}) {
      SCOPED_TRACE(fmt::format("cancelled after {} steps, {}", steps, tight));
      CacheFlags flags = flags_of("4", tight ? 2 : 4);
      if (tight) flags = small(flags, 0.0);
      EngineOptions options;
      options.reserve_tokens = 8;
      Server many(flags, options);
      const int64_t leader = many.submit(plain);
      Request fork = plain;
      fork.fork_of = leader;
      const std::vector<int64_t> ids = {many.submit(fork), many.submit(fork), many.submit(fork)};
      for (int i = 0; i < steps; ++i) many.step();
      many->cancel(leader);
      many.finish_all();
      for (const int64_t id : ids) EXPECT_EQ(many.replies[id], expected);
      many.expect_nothing_left();
      // Two of them at least did not compute the prompt, where there is room for all.
      EXPECT_TRUE(tight || many->serving().cached_tokens >= 2 * 150);
    }
  Server many(flags_of("4", 4));
  Request fork = plain;
  fork.fork_of = 7;
  EXPECT_EQ(many->submit(fork).error().kind, ErrorKind::usage);
  fork.fork_of = many.submit(plain);
  fork.tokens.back() ^= 1;
  EXPECT_THAT(many->submit(fork).error().message, HasSubstr("another prompt"));
}

// Clients with one system prompt that arrive together: it is computed once.
TEST(Serving, ACommonBeginningIsComputedOnce) {
  std::mt19937 random(6);
  const Tokens common = random_tokens(300, random);
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 12; ++i) {
    Tokens tokens = common;
    for (const int32_t token : random_tokens(10 + i, random)) tokens.push_back(token);
    requests.push_back(request_of(tokens, 10, true, i));
    requests.back().snapshot_at = {300};
  }
  Server many(flags_of("8", 12, 1 << 20)), alone(flags_of("8", 1));
  std::vector<int64_t> ids;
  for (const Request& request : requests) ids.push_back(many.submit(request));
  const int64_t other = many.submit(request_of(random_tokens(5, random), 3, true, 1));
  many.step();
  EXPECT_EQ(many->serving().running, 2);  // the first, and one that has nothing to wait for
  EXPECT_EQ(many->serving().waiting, 11);
  many.step();
  EXPECT_EQ(many.replies[other].tokens.size(), 1u);
  many.finish_all();
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(many.replies[ids[i]], alone.run(requests[i])) << i;
    EXPECT_EQ(many->stats(ids[i]).cached_tokens, i == 0 ? 0 : 300);
  }
  many.expect_nothing_left();
}

TEST(Serving, AFullQueueIsBusy) {
  EngineOptions options;
  options.max_queue = 2;
  Server server(flags_of("8", 2), options);
  const Request request = request_of({5, 6, 7}, 5, true, 0);
  for (int i = 0; i < 4; ++i) server.submit(request);  // two will run, two wait
  const auto full = server->submit(request);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().kind, ErrorKind::busy);
  server.step();
  EXPECT_EQ(server->serving().running, 2);
  EXPECT_EQ(server->serving().waiting, 2);
  EXPECT_EQ(server->submit(request).error().kind, ErrorKind::busy);
  while (server->serving().waiting == 2) server.step();
  server.submit(request);
  server.finish_all();
  server.expect_nothing_left();
  EXPECT_EQ(server->serving().generated_tokens, 25);
}

// A request that fails takes nobody with it, though they ran in one step.
TEST(Serving, OnlyTheGuiltyRequestFails) {
  constexpr int32_t kPoison = 13;
  ringkeep::testing::TinySpec spec{.layers = {layer_of(LayerKind::full)}};
  spec.poisoned = kPoison;
  const TinyModel poisoned(spec);
  for (const char* codec : {"f16", "4"}) {
    Server many(flags_of(codec, 8), {}, poisoned), alone(flags_of(codec, 1), {}, poisoned);
    std::mt19937 random(2);
    std::vector<Request> requests;
    for (uint64_t i = 0; i < 6; ++i) {
      Tokens tokens = random_tokens(20 + 10 * i, random);
      std::ranges::replace(tokens, kPoison, kPoison + 1);
      if (i == 2 || i == 4) tokens[15] = kPoison;
      requests.push_back(request_of(tokens, 30, true, i));
      requests.back().sampling.logit_bias = {{kPoison, -100.0f}};
    }
    std::vector<int64_t> ids;
    for (const Request& request : requests) ids.push_back(many.submit(request));
    many.finish_all();
    for (size_t i = 0; i < ids.size(); ++i) {
      const Reply& reply = many.replies[ids[i]];
      if (i == 2 || i == 4)
        EXPECT_THAT(reply.error, HasSubstr("non-finite"));
      else
        EXPECT_EQ(reply, alone.run(requests[i])) << i;
    }
    many.expect_nothing_left();
  }
}

// Lets one text follow, and nothing after it; at the token `stray` it complains, before the token
// `hard` it has no mask.
class Script final : public text::TokenConstraint {
 public:
  explicit Script(Tokens script, size_t stray = SIZE_MAX, size_t hard = SIZE_MAX)
      : script_(std::move(script)), stray_(stray), hard_(hard) {}
  Status mask(std::span<uint64_t> allowed) override {
    if (at_ == hard_) return make_error(ErrorKind::usage, "a mask that takes too much work");
    std::ranges::fill(allowed, 0);
    if (at_ < script_.size()) allowed[script_[at_] / 64] |= uint64_t{1} << (script_[at_] % 64);
    return {};
  }
  Status accept(int32_t token) override {
    if (at_ == stray_ || token != script_[at_])
      return make_error(ErrorKind::runtime, "token {} is not in the script", token);
    ++at_;
    return {};
  }
  bool complete() const override { return at_ == script_.size(); }

 private:
  Tokens script_;
  size_t stray_, hard_, at_ = 0;
};

// What a constraint has seen stays as it was while its request is set back and computed again.
TEST(Serving, ConstrainedRepliesFollowTheirScripts) {
  EngineOptions options;
  options.reserve_tokens = 0;
  Server many(small(flags_of("4", 8), 0.0), options);
  std::mt19937 random(8);
  std::vector<Tokens> scripts;
  std::vector<int64_t> ids;
  for (uint64_t i = 0; i < 8; ++i) {
    scripts.push_back(random_tokens(i == 5 ? 0 : 100 + i, random));
    Request request = request_of(random_tokens(50, random), 300, i % 2 == 0, i);
    request.constraint = std::make_shared<Script>(scripts.back(), i == 3 ? 20 : SIZE_MAX,
                                                  i == 6   ? 30
                                                  : i == 7 ? 0
                                                           : SIZE_MAX);
    ids.push_back(many.submit(request));
  }
  many.finish_all();
  EXPECT_GT(many->serving().preemptions, 0);
  for (size_t i = 0; i < ids.size(); ++i) {
    const Reply& reply = many.replies[ids[i]];
    if (i == 3) {
      EXPECT_THAT(reply.error, HasSubstr("not in the script"));
      continue;
    }
    if (i == 6 || i == 7) {
      EXPECT_THAT(reply.error, HasSubstr("too much work"));
      EXPECT_EQ(reply.tokens.size(), i == 6 ? 30u : 0u);
      continue;
    }
    EXPECT_EQ(reply.error, "");
    EXPECT_EQ(reply.tokens, scripts[i]);
    EXPECT_EQ(reply.finish, FinishReason::stop);
  }
  many.expect_nothing_left();
}

TEST(Serving, TheHeartBeatsInEveryLayer) {
  Server server(flags_of("8", 2));
  int beats = 0;
  server->set_heartbeat([&] { ++beats; });
  server.submit(request_of({5, 6, 7}, 2, true, 0));
  server.step();
  EXPECT_GE(beats, 3);
  const int before = beats;
  server.step();
  EXPECT_GE(beats, before + 3);
  server->set_heartbeat({});
  server.submit(request_of({5, 6, 7}, 2, true, 0));
  server.finish_all();
}

}  // namespace
}  // namespace ringkeep::engine
