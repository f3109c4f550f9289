// A tiny random checkpoint in a folder: Gemma 3 (sliding and full layers, q and k norms) or Llama
// (neither).
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/files.h"

namespace ringkeep::testing {

struct TinyCheckpoint {
  bool gemma = true;
  int layers = 3;  // of Gemma: every third is full
  unsigned seed = 1;

  static constexpr int kVocab = 48, kHidden = 64, kFfn = 96, kHeads = 4, kKvHeads = 2, kDim = 64;

  nlohmann::json config() const {
    nlohmann::json out = {{"model_type", gemma ? "gemma3_text" : "llama"},
                          {"vocab_size", kVocab},
                          {"hidden_size", kHidden},
                          {"intermediate_size", kFfn},
                          {"num_hidden_layers", layers},
                          {"num_attention_heads", kHeads},
                          {"num_key_value_heads", kKvHeads},
                          {"head_dim", kDim},
                          {"rms_norm_eps", 1e-6},
                          {"tie_word_embeddings", true},
                          {"max_position_embeddings", 4096},
                          {"rope_theta", 10000.0}};
    if (!gemma) return out;
    out["hidden_activation"] = "gelu_pytorch_tanh";
    out["query_pre_attn_scalar"] = kDim;
    out["sliding_window"] = 32;
    for (int i = 0; i < layers; ++i)
      out["layer_types"].push_back(i % 3 == 2 ? "full_attention" : "sliding_attention");
    return out;
  }

  // Writes config.json and model.safetensors; returns the folder.
  std::string write(const TempFolder& folder) const {
    std::mt19937 random(seed);
    nlohmann::json header;
    std::string data;
    const auto add = [&](const std::string& name, std::vector<int> shape, float mean, float width) {
      std::normal_distribution<float> normal(mean, width);
      size_t count = 1;
      for (const int extent : shape) count *= static_cast<size_t>(extent);
      Bytes bytes;
      for (size_t i = 0; i < count; ++i) bytes.put(normal(random));
      header[name] = {{"dtype", "F32"},
                      {"shape", shape},
                      {"data_offsets", {data.size(), data.size() + bytes.data.size()}}};
      data += bytes.data;
    };
    const float one = gemma ? 0.0f : 1.0f;  // Gemma stores norm weights less one
    add("model.embed_tokens.weight", {kVocab, kHidden}, 0, 0.5f);
    add("model.norm.weight", {kHidden}, one, 0.2f);
    for (int i = 0; i < layers; ++i) {
      const std::string p = "model.layers." + std::to_string(i) + ".";
      const auto matrix = [&](const char* name, int rows, int cols) {
        add(p + name + ".weight", {rows, cols}, 0, 1.0f / std::sqrt(static_cast<float>(cols)));
      };
      matrix("self_attn.q_proj", kHeads * kDim, kHidden);
      matrix("self_attn.k_proj", kKvHeads * kDim, kHidden);
      matrix("self_attn.v_proj", kKvHeads * kDim, kHidden);
      matrix("self_attn.o_proj", kHidden, kHeads * kDim);
      matrix("mlp.gate_proj", kFfn, kHidden);
      matrix("mlp.up_proj", kFfn, kHidden);
      matrix("mlp.down_proj", kHidden, kFfn);
      std::vector<const char*> norms = {"input_layernorm", "post_attention_layernorm"};
      if (gemma) {
        norms.insert(norms.end(), {"pre_feedforward_layernorm", "post_feedforward_layernorm"});
        add(p + "self_attn.q_norm.weight", {kDim}, one, 0.4f);
        add(p + "self_attn.k_norm.weight", {kDim}, one, 0.4f);
      }
      for (const char* norm : norms) add(p + norm + ".weight", {kHidden}, one, 0.2f);
    }
    const std::string text = header.dump();
    folder.write("config.json", config().dump());
    folder.write("model.safetensors", Bytes().u64(text.size()).raw(text).raw(data).data);
    return folder.path();
  }
};

}  // namespace ringkeep::testing
