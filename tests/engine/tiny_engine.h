// A tiny random Gemma 3 (sliding layers of 32 tokens and full ones in turn), written as a Hugging
// Face folder, and an engine that runs it on the CPU.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/safetensors_writer.h"
#include "engine/engine.h"
#include "kernels/select/select.h"

namespace ringkeep::engine::testing {

constexpr int kVocab = 96;
constexpr int kWindow = 32;

// Removed with the process's last user of it.
class TinyModel {
 public:
  explicit TinyModel(uint32_t seed = 1) {
    static int count = 0;
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("ringkeep-tiny-{}-{}", ::getpid(), count++);
    std::filesystem::create_directory(folder_);
    write_config();
    write_weights(seed);
  }
  ~TinyModel() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path() const { return folder_.string(); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

 private:
  static constexpr int kLayers = 4, kHidden = 64, kFfn = 96, kHeads = 2, kKvHeads = 1, kDim = 32;

  void write_config() const {
    std::ofstream(folder_ / "config.json") << R"({"model_type": "gemma3_text",
      "architectures": ["Gemma3ForCausalLM"], "vocab_size": 96, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 2,
      "num_key_value_heads": 1, "head_dim": 32, "rms_norm_eps": 1e-6, "tie_word_embeddings": true,
      "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 32, "sliding_window": 32,
      "layer_types": ["sliding_attention", "full_attention", "sliding_attention",
                      "full_attention"],
      "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "max_position_embeddings": 4096})";
  }

  void write_weights(uint32_t seed) const {
    std::map<std::string, std::vector<int64_t>> shapes = {
        {"model.embed_tokens.weight", {kVocab, kHidden}}, {"model.norm.weight", {kHidden}}};
    for (int i = 0; i < kLayers; ++i) {
      const std::string p = fmt::format("model.layers.{}.", i);
      for (const char* norm : {"input_layernorm", "post_attention_layernorm",
                               "pre_feedforward_layernorm", "post_feedforward_layernorm"})
        shapes[p + norm + ".weight"] = {kHidden};
      shapes[p + "self_attn.q_proj.weight"] = {kHeads * kDim, kHidden};
      shapes[p + "self_attn.k_proj.weight"] = {kKvHeads * kDim, kHidden};
      shapes[p + "self_attn.v_proj.weight"] = {kKvHeads * kDim, kHidden};
      shapes[p + "self_attn.o_proj.weight"] = {kHidden, kHeads * kDim};
      shapes[p + "self_attn.q_norm.weight"] = {kDim};
      shapes[p + "self_attn.k_norm.weight"] = {kDim};
      shapes[p + "mlp.gate_proj.weight"] = {kFfn, kHidden};
      shapes[p + "mlp.up_proj.weight"] = {kFfn, kHidden};
      shapes[p + "mlp.down_proj.weight"] = {kHidden, kFfn};
    }
    std::mt19937 random(seed);
    std::vector<checkpoint::SafetensorsEntry> entries;
    std::vector<float> values;
    for (const auto& [name, shape] : shapes) {
      size_t n = 1;
      for (const int64_t extent : shape) n *= static_cast<size_t>(extent);
      const float size = shape.size() == 1 ? 0.2f : 0.25f;
      std::normal_distribution<float> normal(0.0f, size);
      for (size_t i = 0; i < n; ++i) values.push_back(normal(random));
      entries.push_back({name, "F32", shape, n * sizeof(float)});
    }
    auto writer =
        checkpoint::SafetensorsWriter::create((folder_ / "model.safetensors").string(), {}, entries)
            .value();
    writer.write(std::as_bytes(std::span(values))).value();
    writer.finish().value();
  }

  std::filesystem::path folder_;
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
  TinyEngine(const TinyModel& model, const CacheFlags& flags)
      : device_(kernels::make_cpu_device(1)), ops_(kernels::cpu_backend()) {
    EngineOptions options;
    options.cache = flags;
    engine_ = Engine::load(checkpoint::open(model.path()).value(), options, ops_, *device_).value();
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
