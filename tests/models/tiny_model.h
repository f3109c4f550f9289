// A tiny random model: Llama, or Gemma 3 (norms on both sides of a branch, q and k norms), with
// layers of any kind, written as a Hugging Face folder.
#pragma once

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "../checkpoint/files.h"
#include "checkpoint/checkpoint.h"
#include "random_tensors.h"

namespace ringkeep::testing {

inline constexpr int kVocab = 96, kHidden = 64, kHeads = 4, kKvHeads = 2, kFfn = 96;

inline LayerSpec layer_of(LayerKind kind, int64_t window = 0, int donor = -1) {
  LayerSpec spec;  // head sizes come from the file
  spec.kind = kind;
  spec.window = window;
  spec.donor = donor;
  return spec;
}

// Sliding layers of `window` tokens; every n-th is full.
inline std::vector<LayerSpec> hybrid_layers(int count, int every, int64_t window = 32) {
  std::vector<LayerSpec> layers;
  for (int i = 1; i <= count; ++i)
    layers.push_back(i % every == 0 ? layer_of(LayerKind::full)
                                    : layer_of(LayerKind::sliding, window));
  return layers;
}

struct TinySpec {
  std::vector<LayerSpec> layers;  // kind, window and donor of each
  bool gemma = false;
  int head_dim = 64;
  int v_dim = 0;  // 0: as head_dim
  int vocab = kVocab, heads = kHeads, kv_heads = kKvHeads;
  unsigned seed = 1;
  int32_t poisoned = -1;  // a token whose embedding is not a number
};

class TinyModel {
 public:
  explicit TinyModel(TinySpec spec) : spec_(std::move(spec)) {
    folder_.write("config.json", config().dump());
    write_weights();
  }
  explicit TinyModel(const std::vector<LayerSpec>& layers, int head_dim = 64, int v_dim = 0)
      : TinyModel(TinySpec{.layers = layers, .head_dim = head_dim, .v_dim = v_dim}) {}

  std::string path() const { return folder_.path(); }
  std::string file(const std::string& name) const { return folder_.path() + "/" + name; }

  // With layers of the kinds of the spec, which the file cannot all tell.
  checkpoint::Checkpoint open() const {
    auto checkpoint = checkpoint::open(folder_.path(), {.tokenizer = false}).value();
    for (size_t i = 0; i < spec_.layers.size(); ++i) {
      LayerSpec& spec = checkpoint.config.layers[i];
      spec.kind = spec_.layers[i].kind;
      spec.window = spec_.layers[i].window;
      spec.donor = spec_.layers[i].donor;
      spec.v_dim = v_dim();
    }
    return checkpoint;
  }

 private:
  int v_dim() const { return spec_.v_dim > 0 ? spec_.v_dim : spec_.head_dim; }

  nlohmann::json config() const {
    nlohmann::json out = {
        {"model_type", spec_.gemma ? "gemma3_text" : "llama"},
        {"architectures", {spec_.gemma ? "Gemma3ForCausalLM" : "LlamaForCausalLM"}},
        {"vocab_size", spec_.vocab},
        {"hidden_size", kHidden},
        {"intermediate_size", kFfn},
        {"num_hidden_layers", spec_.layers.size()},
        {"num_attention_heads", spec_.heads},
        {"num_key_value_heads", spec_.kv_heads},
        {"head_dim", spec_.head_dim},
        {"rms_norm_eps", 1e-6},
        {"rope_theta", 10000.0},
        {"tie_word_embeddings", spec_.gemma},
        {"max_position_embeddings", 4096}};
    if (!spec_.gemma) return out;
    out["hidden_activation"] = "gelu_pytorch_tanh";
    out["query_pre_attn_scalar"] = spec_.head_dim;
    out["rope_local_base_freq"] = 10000.0;
    for (const LayerSpec& layer : spec_.layers) {
      const bool sliding = layer.kind == LayerKind::sliding;
      out["layer_types"].push_back(sliding ? "sliding_attention" : "full_attention");
      if (sliding) out["sliding_window"] = layer.window;
    }
    return out;
  }

  void write_weights() const {
    RandomTensors tensors(spec_.seed);
    const auto matrix = [&](const std::string& name, int rows, int cols) {
      tensors.matrix(name, rows, cols, 1.5f);
    };
    const float one = spec_.gemma ? 0.0f : 1.0f;  // Gemma stores norm weights less one
    matrix("model.embed_tokens", spec_.vocab, kHidden);
    for (int i = 0; spec_.poisoned >= 0 && i < kHidden; ++i) {
      const float nan = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(tensors.data().data() + 4 * (spec_.poisoned * kHidden + i), &nan, 4);
    }
    for (size_t i = 0; i < spec_.layers.size(); ++i) {
      const std::string p = fmt::format("model.layers.{}.", i);
      matrix(p + "self_attn.q_proj", spec_.heads * spec_.head_dim, kHidden);
      matrix(p + "self_attn.k_proj", spec_.kv_heads * spec_.head_dim, kHidden);
      matrix(p + "self_attn.v_proj", spec_.kv_heads * v_dim(), kHidden);
      matrix(p + "self_attn.o_proj", kHidden, spec_.heads * v_dim());
      matrix(p + "mlp.gate_proj", kFfn, kHidden);
      matrix(p + "mlp.up_proj", kFfn, kHidden);
      matrix(p + "mlp.down_proj", kHidden, kFfn);
      std::vector<const char*> norms = {"input_layernorm", "post_attention_layernorm"};
      if (spec_.gemma) {
        norms.insert(norms.end(), {"pre_feedforward_layernorm", "post_feedforward_layernorm"});
        tensors.norm(p + "self_attn.q_norm", spec_.head_dim, one, 0.4f);
        tensors.norm(p + "self_attn.k_norm", spec_.head_dim, one, 0.4f);
      }
      for (const char* norm : norms) tensors.norm(p + norm, kHidden, one, 0.1f);
    }
    tensors.norm("model.norm", kHidden, one, 0.1f);
    if (!spec_.gemma) matrix("lm_head", spec_.vocab, kHidden);
    tensors.write(folder_);
  }

  TinySpec spec_;
  TempFolder folder_;
};

using Tokens = std::vector<int32_t>;

inline Tokens random_tokens(size_t count, std::mt19937& random) {
  Tokens tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % kVocab);
  return tokens;
}

}  // namespace ringkeep::testing
