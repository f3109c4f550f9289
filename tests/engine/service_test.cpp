#include "engine/service.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/tiny_engine.h"

namespace ringkeep::engine {
namespace {

using testing::kVocab;
using testing::random_tokens;
using testing::TinyEngine;
using testing::TinyModel;

// What the handlers of a group were told. Handlers may outlive it: a test that fails early leaves
// its listeners before the service ends.
class Listener {
 public:
  struct Told {
    int accepted = 0;
    std::vector<int32_t> tokens;
    std::string error;
    bool ended = false;
  };
  Service::Handler handler() {
    return [heard = heard_](const Update& update) {
      const std::lock_guard lock(heard->mutex);
      Told& told = heard->told[update.index];
      EXPECT_FALSE(told.ended) << "an update after the last one";
      if (update.accepted) ++told.accepted;
      told.tokens.insert(told.tokens.end(), update.event.tokens.begin(), update.event.tokens.end());
      if (update.event.error) told.error = update.event.error->message;
      told.ended = update.last();
      heard->changed.notify_all();
    };
  }
  // Of request `index`, once it has ended or has so many tokens.
  Told wait(size_t index = 0, int64_t tokens = -1) {
    std::unique_lock lock(heard_->mutex);
    EXPECT_TRUE(heard_->changed.wait_for(lock, std::chrono::seconds(60), [&] {
      const Told& told = heard_->told[index];
      return told.ended || (tokens >= 0 && static_cast<int64_t>(told.tokens.size()) >= tokens);
    }));
    return heard_->told[index];
  }

 private:
  struct Heard {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<size_t, Told> told;
  };
  std::shared_ptr<Heard> heard_ = std::make_shared<Heard>();
};

class ServiceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = new TinyModel(); }
  static void TearDownTestSuite() { delete model_; }

  CacheFlags flags() {
    CacheFlags flags;
    flags.ctx = 512;
    flags.parallel = 2;
    return flags;
  }
  std::unique_ptr<Service> start(ServiceOptions options = {}) {
    engine_ = std::make_unique<TinyEngine>(*model_, flags());
    return Service::start(**engine_, options).value();
  }
  static std::vector<Request> one(int64_t max_tokens, uint32_t seed = 1) {
    std::vector<Request> requests;
    requests.push_back(TinyEngine::request(random_tokens(20, seed), max_tokens));
    requests.back().ignore_eos = true;
    return requests;
  }

  static std::vector<Request> two(int64_t max_tokens) {
    std::vector<Request> requests = one(max_tokens, 1);
    requests.push_back(std::move(one(max_tokens, 2).front()));
    return requests;
  }

  static TinyModel* model_;
  std::unique_ptr<TinyEngine> engine_;
};
TinyModel* ServiceTest::model_ = nullptr;

TEST_F(ServiceTest, GivesWhatTheEngineGives) {
  TinyEngine alone(*model_, flags());
  std::vector<std::vector<int32_t>> expected;
  for (uint32_t seed = 1; seed <= 3; ++seed)
    expected.push_back(alone.run(TinyEngine::request(random_tokens(20, seed))).tokens);

  const auto service = start();
  Listener listeners[3];
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    std::vector<Request> requests;
    requests.push_back(TinyEngine::request(random_tokens(20, seed)));
    ASSERT_TRUE(service->submit(std::move(requests), listeners[seed - 1].handler()).ok());
  }
  for (int i = 0; i < 3; ++i) {
    const auto told = listeners[i].wait();
    EXPECT_EQ(told.accepted, 1);
    EXPECT_EQ(told.tokens, expected[static_cast<size_t>(i)]);
    EXPECT_EQ(told.error, "");
  }
  EXPECT_EQ(service->open_requests(), 0);
}

TEST_F(ServiceTest, AGroupSharesItsPrompt) {
  const auto service = start();
  std::vector<Request> group;
  for (int i = 0; i < 3; ++i) {
    group.push_back(TinyEngine::request(random_tokens(200, 4)));
    if (i > 0) group.back().fork_of = -1;
  }
  Listener listener;
  ASSERT_TRUE(service->submit(std::move(group), listener.handler()).ok());
  const auto first = listener.wait(0);
  for (size_t i = 1; i < 3; ++i) EXPECT_EQ(listener.wait(i).tokens, first.tokens);
}

TEST_F(ServiceTest, AGroupStandsOrFallsTogether) {
  const auto service = start();
  std::vector<Request> group = one(10);
  group.push_back(TinyEngine::request({kVocab + 5}));
  Listener listener;
  ASSERT_TRUE(service->submit(std::move(group), listener.handler()).ok());
  for (size_t i = 0; i < 2; ++i) {
    const auto told = listener.wait(i);
    EXPECT_NE(told.error.find("outside the vocabulary"), std::string::npos);
    EXPECT_TRUE(told.tokens.empty());
  }
  EXPECT_EQ(service->open_requests(), 0);
}

TEST_F(ServiceTest, RefusesWhatIsOverTheBound) {
  const auto service = start({.max_open = 2, .fault = "slow:5"});
  Listener listeners[4];
  ASSERT_TRUE(service->submit(one(200, 1), listeners[0].handler()).ok());
  const auto second = service->submit(one(200, 2), listeners[1].handler());
  ASSERT_TRUE(second.ok());
  const auto third = service->submit(one(5, 3), listeners[2].handler());
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().kind, ErrorKind::busy);
  service->cancel(*second);
  EXPECT_TRUE(service->submit(one(5, 3), listeners[3].handler()).ok());
  EXPECT_EQ(listeners[3].wait().tokens.size(), 5u);
}

TEST_F(ServiceTest, CancelFreesTheSequence) {
  const auto service = start({.fault = "slow:2"});
  Listener listener;
  const auto id = service->submit(one(400), listener.handler());
  listener.wait(0, 3);
  service->cancel(*id);
  for (int i = 0; i < 500 && !service->snapshot().sequences.empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(service->snapshot().sequences.empty());
  EXPECT_EQ(service->snapshot().bytes_used, 0u);
  service->cancel(*id);  // of a group that is gone: nothing
}

TEST_F(ServiceTest, ADeadEngineEndsEveryRequest) {
  const auto service = start({.fault = "throw:5"});
  Listener listener;  // of one group: the engine may be dead before another arrives
  ASSERT_TRUE(service->submit(two(400), listener.handler()).ok());
  for (size_t i = 0; i < 2; ++i)
    EXPECT_NE(listener.wait(i).error.find("a fault that was asked for"), std::string::npos);
  EXPECT_EQ(service->health().state, EngineHealth::State::dead);
  const auto late = service->submit(one(1), [](const Update&) { ADD_FAILURE(); });
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::runtime);
}

TEST_F(ServiceTest, AStalledEngineEndsRequestsAndRecovers) {
  const auto service = start({.stalled_after = 0.3, .fault = "stall:4:2"});
  Listener listener;
  ASSERT_TRUE(service->submit(one(400), listener.handler()).ok());
  EXPECT_NE(listener.wait().error.find("no sign of life"), std::string::npos);
  EXPECT_EQ(service->health().state, EngineHealth::State::stalled);
  for (int i = 0; i < 500 && service->health().state != EngineHealth::State::alive; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  Listener again;
  ASSERT_TRUE(service->submit(one(3), again.handler()).ok());
  EXPECT_EQ(again.wait().tokens.size(), 3u);
  EXPECT_EQ(again.wait().error, "");
}

// In the middle of a step: whoever is alone in it fails, and gives everything back.
TEST_F(ServiceTest, ARequestWithoutMemoryFailsAlone) {
  const auto service = start({.fault = "memory:4"});
  Listener listener, again;
  ASSERT_TRUE(service->submit(one(400), listener.handler()).ok());
  EXPECT_NE(listener.wait().error.find("out of memory"), std::string::npos);
  ASSERT_TRUE(service->submit(one(3), again.handler()).ok());
  EXPECT_EQ(again.wait().tokens.size(), 3u);
  EXPECT_EQ(again.wait().error, "");
  EXPECT_EQ(service->health().state, EngineHealth::State::alive);
  for (int i = 0; i < 500 && service->snapshot().bytes_used > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(service->snapshot().bytes_used, 0u);
}

// Together too much, but each alone has the memory.
TEST_F(ServiceTest, AStepWithoutMemoryIsRunInParts) {
  TinyEngine alone(*model_, flags());
  const auto service = start({.fault = "memory:6"});
  Listener listener;
  ASSERT_TRUE(service->submit(two(30), listener.handler()).ok());
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(listener.wait(i).error, "");
    EXPECT_EQ(listener.wait(i).tokens, alone.run(std::move(two(30)[i])).tokens);
  }
}

TEST_F(ServiceTest, WithoutMemoryForAnyoneTheEngineLivesOn) {
  const auto service = start({.fault = "memory:6:step"});
  Listener listener, again;
  ASSERT_TRUE(service->submit(two(400), listener.handler()).ok());
  for (size_t i = 0; i < 2; ++i)
    EXPECT_NE(listener.wait(i).error.find("out of memory"), std::string::npos);
  EXPECT_EQ(service->open_requests(), 0);
  ASSERT_TRUE(service->submit(one(3), again.handler()).ok());
  EXPECT_EQ(again.wait().tokens.size(), 3u);
  EXPECT_EQ(service->health().state, EngineHealth::State::alive);
}

// Nor for the next one, which came in while the first was told: the engine ends, in words that say
// what to do. (The handler holds the engine's thread until the next one is there.)
TEST_F(ServiceTest, WithoutMemoryAgainTheEngineEndsInWords) {
  const auto service = start({.fault = "memory:3:always"});
  std::promise<std::string> failed;
  std::promise<void> submitted;
  const auto first = [&, holds = submitted.get_future().share()](const Update& update) {
    if (!update.event.error) return;
    failed.set_value(update.event.error->message);
    holds.wait();
  };
  ASSERT_TRUE(service->submit(one(400), first).ok());
  const std::string told = failed.get_future().get();
  EXPECT_NE(told.find("out of memory: there was none for a step"), std::string::npos) << told;
  Listener second;
  ASSERT_TRUE(service->submit(one(3, 2), second.handler()).ok());
  submitted.set_value();
  const std::string error = second.wait().error;
  for (const char* words : {"the engine stopped: out of memory", "a step of the engine", " MiB",
                            "--kv-memory", "--parallel"})
    EXPECT_NE(error.find(words), std::string::npos) << error;
  EXPECT_EQ(service->health().state, EngineHealth::State::dead);
  EXPECT_EQ(error, "the engine stopped: " + service->health().reason);
}

TEST_F(ServiceTest, DrainLetsRequestsEndAndCutsTheRest) {
  {
    const auto service = start({.fault = "slow:2"});
    Listener listener;
    ASSERT_TRUE(service->submit(one(20), listener.handler()).ok());
    EXPECT_TRUE(service->drain(30));
    EXPECT_EQ(listener.wait().tokens.size(), 20u);
    EXPECT_FALSE(service->submit(one(1), listener.handler()).ok());
  }
  const auto service = start({.fault = "slow:20"});
  Listener listener;
  ASSERT_TRUE(service->submit(one(400), listener.handler()).ok());
  EXPECT_FALSE(service->drain(0.2));
  EXPECT_NE(listener.wait().error.find("shutting down"), std::string::npos);
}

TEST_F(ServiceTest, FaultsAreChecked) {
  engine_ = std::make_unique<TinyEngine>(*model_, flags());
  for (const char* bad : {"x", "throw", "throw:", "throw:0", "throw:1x", "stall:1", "slow:-1",
                          "memory", "memory:0", "memory:1:x"})
    EXPECT_FALSE(Service::start(**engine_, {.fault = bad}).ok()) << bad;
}

}  // namespace
}  // namespace ringkeep::engine
