// A tiny random Gemma 3n, written as a Hugging Face folder: four streams, sliding and full layers,
// layers that share caches, sparse gates, a table for fewer tokens than the vocabulary.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "../checkpoint/files.h"
#include "checkpoint/checkpoint.h"
#include "tiny_model.h"

namespace ringkeep::testing {

class TinyGemma3n {
 public:
  TinyGemma3n() {
    folder_.write("config.json", config().dump());
    write_weights();
  }
  checkpoint::Checkpoint open() const {
    return checkpoint::open(folder_.path(), {.tokenizer = false}).value();
  }

 private:
  static constexpr int kLayers = 6, kSharing = 2, kEmbedded = 16, kWindow = 40, kDim = 32;
  static constexpr int kStreams = 4, kRank = 8, kTable = kVocab - 10;

  nlohmann::json config() const {
    nlohmann::json out = {{"model_type", "gemma3n_text"},
                          {"vocab_size", kVocab},
                          {"hidden_size", kHidden},
                          {"intermediate_size", kFfn},
                          {"num_hidden_layers", kLayers},
                          {"num_attention_heads", kHeads},
                          {"num_key_value_heads", kKvHeads},
                          {"head_dim", kDim},
                          {"sliding_window", kWindow},
                          {"num_kv_shared_layers", kSharing},
                          {"hidden_size_per_layer_input", kEmbedded},
                          {"vocab_size_per_layer_input", kTable},
                          {"altup_num_inputs", kStreams},
                          {"laurel_rank", kRank},
                          {"activation_sparsity_pattern", {0.9, 0.0, 0.5, 0.0, 0.0, 0.0}}};
    for (int i = 0; i < kLayers; ++i)
      out["layer_types"].push_back(i % 3 == 2 ? "full_attention" : "sliding_attention");
    return out;
  }

  void write_weights() const {
    std::mt19937 random(3);
    nlohmann::ordered_json header;
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
    const auto matrix = [&](const std::string& name, int rows, int cols, float gain = 1.0f) {
      add(name + ".weight", {rows, cols}, 0.0f, gain / std::sqrt(static_cast<float>(cols)));
    };
    const auto norm = [&](const std::string& name, int size) {
      add(name + ".weight", {size}, 0.8f, 0.2f);
    };
    matrix("model.embed_tokens", kVocab, kHidden);
    matrix("model.embed_tokens_per_layer", kTable, kLayers * kEmbedded);
    matrix("model.per_layer_model_projection", kLayers * kEmbedded, kHidden);
    norm("model.per_layer_projection_norm", kEmbedded);
    for (int i = 0; i + 1 < kStreams; ++i) {
      matrix(fmt::format("model.altup_projections.{}", i), kHidden, kHidden);
      matrix(fmt::format("model.altup_unembed_projections.{}", i), kHidden, kHidden);
    }
    for (int i = 0; i < kLayers; ++i) {
      const std::string p = fmt::format("model.layers.{}.", i);
      matrix(p + "self_attn.q_proj", kHeads * kDim, kHidden);
      norm(p + "self_attn.q_norm", kDim);
      if (i < kLayers - kSharing) {
        matrix(p + "self_attn.k_proj", kKvHeads * kDim, kHidden);
        norm(p + "self_attn.k_norm", kDim);
        matrix(p + "self_attn.v_proj", kKvHeads * kDim, kHidden);
      }
      matrix(p + "self_attn.o_proj", kHidden, kHeads * kDim);
      matrix(p + "mlp.gate_proj", kFfn, kHidden);
      matrix(p + "mlp.up_proj", kFfn, kHidden);
      matrix(p + "mlp.down_proj", kHidden, kFfn);
      matrix(p + "laurel.linear_left", kRank, kHidden);
      matrix(p + "laurel.linear_right", kHidden, kRank);
      matrix(p + "per_layer_input_gate", kEmbedded, kHidden);
      matrix(p + "per_layer_projection", kHidden, kEmbedded);
      // The router reads rows divided by their width.
      matrix(p + "altup.modality_router", kStreams, kHidden, kHidden);
      matrix(p + "altup.prediction_coefs", kStreams * kStreams, kStreams, 0.25f);
      matrix(p + "altup.correction_coefs", kStreams, kStreams, 0.5f);
      add(p + "altup.correct_output_scale", {kHidden}, 1.0f, 0.2f);
      for (const char* name :
           {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
            "post_feedforward_layernorm", "post_per_layer_input_norm", "laurel.post_laurel_norm",
            "altup.router_norm"})
        norm(p + name, kHidden);
    }
    norm("model.norm", kHidden);
    const std::string text = header.dump();
    folder_.write("model.safetensors", Bytes().u64(text.size()).raw(text).raw(data).data);
  }

  TempFolder folder_;
};

}  // namespace ringkeep::testing
