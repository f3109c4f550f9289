// A tiny random Gemma 4 of the E series, written as a Hugging Face folder: sliding and full heads
// of different sizes, layers that share caches, per-layer embeddings; or with values from keys.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "../checkpoint/files.h"
#include "checkpoint/checkpoint.h"
#include "random_tensors.h"
#include "tiny_model.h"

namespace ringkeep::testing {

class TinyGemma4 {
 public:
  explicit TinyGemma4(bool e_series) : e_series_(e_series) {
    folder_.write("config.json", config().dump());
    write_weights();
  }
  checkpoint::Checkpoint open() const {
    return checkpoint::open(folder_.path(), {.tokenizer = false}).value();
  }

 private:
  static constexpr int kLayers = 6, kSharing = 3, kEmbedded = 16, kWindow = 40;
  static bool full(int layer) { return layer % 2 == 1; }
  bool owns(int layer) const { return !e_series_ || layer < kLayers - kSharing; }

  nlohmann::json config() const {
    nlohmann::json out = {{"model_type", "gemma4_text"},
                          {"vocab_size", kVocab},
                          {"hidden_size", kHidden},
                          {"intermediate_size", kFfn},
                          {"num_hidden_layers", kLayers},
                          {"num_attention_heads", kHeads},
                          {"num_key_value_heads", kKvHeads},
                          {"num_global_key_value_heads", 1},
                          {"head_dim", 32},
                          {"global_head_dim", 64},
                          {"sliding_window", kWindow},
                          {"final_logit_softcapping", 10.0},
                          {"attention_k_eq_v", !e_series_},
                          {"num_kv_shared_layers", e_series_ ? kSharing : 0},
                          {"use_double_wide_mlp", e_series_},
                          {"hidden_size_per_layer_input", e_series_ ? kEmbedded : 0},
                          {"vocab_size_per_layer_input", kVocab}};
    for (int i = 0; i < kLayers; ++i)
      out["layer_types"].push_back(full(i) ? "full_attention" : "sliding_attention");
    return out;
  }

  void write_weights() const {
    RandomTensors tensors(3);
    const auto matrix = [&](const std::string& name, int rows, int cols) {
      tensors.matrix(name, rows, cols);
    };
    const auto norm = [&](const std::string& name, int size) {
      tensors.norm(name, size, 0.8f, 0.2f);
    };
    matrix("model.embed_tokens", kVocab, kHidden);
    if (e_series_) {
      matrix("model.embed_tokens_per_layer", kVocab, kLayers * kEmbedded);
      matrix("model.per_layer_model_projection", kLayers * kEmbedded, kHidden);
      norm("model.per_layer_projection_norm", kEmbedded);
    }
    for (int i = 0; i < kLayers; ++i) {
      const std::string p = fmt::format("model.layers.{}.", i);
      const int dim = full(i) ? 64 : 32, ffn = owns(i) ? kFfn : 2 * kFfn;
      const int kv_heads = full(i) && !e_series_ ? 1 : kKvHeads;
      matrix(p + "self_attn.q_proj", kHeads * dim, kHidden);
      norm(p + "self_attn.q_norm", dim);
      if (owns(i)) {
        matrix(p + "self_attn.k_proj", kv_heads * dim, kHidden);
        norm(p + "self_attn.k_norm", dim);
        if (e_series_ || !full(i)) matrix(p + "self_attn.v_proj", kv_heads * dim, kHidden);
      }
      matrix(p + "self_attn.o_proj", kHidden, kHeads * dim);
      matrix(p + "mlp.gate_proj", ffn, kHidden);
      matrix(p + "mlp.up_proj", ffn, kHidden);
      matrix(p + "mlp.down_proj", kHidden, ffn);
      for (const char* name : {"input_layernorm", "post_attention_layernorm",
                               "pre_feedforward_layernorm", "post_feedforward_layernorm"})
        norm(p + name, kHidden);
      if (e_series_) {
        matrix(p + "per_layer_input_gate", kEmbedded, kHidden);
        matrix(p + "per_layer_projection", kHidden, kEmbedded);
        norm(p + "post_per_layer_input_norm", kHidden);
      }
      tensors.add(p + "layer_scalar", {1}, 0.8f, 0.1f);
    }
    norm("model.norm", kHidden);
    tensors.write(folder_);
  }

  bool e_series_;
  TempFolder folder_;
};

}  // namespace ringkeep::testing
