// An engine that runs a tiny model on the CPU.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "kernels/select/select.h"
#include "models/tiny_model.h"

namespace ringkeep::engine::testing {

using ringkeep::testing::kVocab;
constexpr int kWindow = 32;

// Gemma 3: sliding layers of 32 tokens and full ones in turn.
class TinyModel : public ringkeep::testing::TinyModel {
 public:
  explicit TinyModel(uint32_t seed = 1)
      : ringkeep::testing::TinyModel({.layers = ringkeep::testing::hybrid_layers(4, 2, kWindow),
                                      .gemma = true,
                                      .head_dim = 32,
                                      .heads = 2,
                                      .kv_heads = 1,
                                      .seed = seed}) {}
};

// What a request came to.
struct Reply {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;  // of the tokens, for bitwise comparison of what led to them
  GenerationStats stats;
  bool operator==(const Reply& other) const {
    return tokens == other.tokens && logprobs == other.logprobs;
  }
};

class TinyEngine {
 public:
  TinyEngine(const TinyModel& model, const CacheFlags& flags, EngineOptions options = {})
      : device_(kernels::make_cpu_device(1)), ops_(kernels::cpu_backend()) {
    options.cache = flags;
    engine_ = Engine::load(model.open(), options, ops_, *device_).value();
  }
  Engine& operator*() { return *engine_; }
  Engine* operator->() { return engine_.get(); }

  static Request request(std::vector<int32_t> tokens, int64_t max_tokens = 12) {
    Request request;
    request.tokens = std::move(tokens);
    request.sampling.temperature = 0.0f;
    request.max_tokens = max_tokens;
    request.top_logprobs = 0;
    return request;
  }

  // Runs until all requests of the engine are done.
  std::vector<Reply> run(std::vector<Request> requests) {
    std::map<int64_t, size_t> place;
    std::vector<Reply> replies(requests.size());
    for (size_t i = 0; i < requests.size(); ++i)
      place[engine_->submit(std::move(requests[i])).value()] = i;
    while (!engine_->idle())
      for (const Event& event : engine_->step()) {
        EXPECT_FALSE(event.error.has_value()) << event.error->message;
        Reply& reply = replies[place.at(event.id)];
        reply.tokens.insert(reply.tokens.end(), event.tokens.begin(), event.tokens.end());
        for (const Sampled& sampled : event.logprobs) reply.logprobs.push_back(sampled.logprob);
      }
    for (const auto& [id, i] : place) replies[i].stats = engine_->stats(id);
    return replies;
  }
  Reply run(Request request) {
    std::vector<Request> requests;
    requests.push_back(std::move(request));
    return run(std::move(requests)).front();
  }

 private:
  std::unique_ptr<kernels::Device> device_;
  kernels::Ops ops_;
  std::unique_ptr<Engine> engine_;
};

inline std::vector<int32_t> random_tokens(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens = {2};
  while (tokens.size() < n) tokens.push_back(3 + static_cast<int32_t>(random() % (kVocab - 3)));
  return tokens;
}

}  // namespace ringkeep::engine::testing
