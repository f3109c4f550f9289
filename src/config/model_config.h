// What a model is, as plain data: filled by checkpoint/ from GGUF metadata or config.json, read by
// kv/, weights/, models/ and the apps. Layers differ; nothing may read layers[0] as typical.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringkeep {

enum class LayerKind {
  full,       // sees every earlier token
  sliding,    // sees the last `window` tokens, its own included
  chunked,    // sees its own block of `window` tokens only
  shared,     // reads the cache of layer `donor`
  recurrent,  // state-space, linear attention, convolution: known, not runnable, refused by plan
              // with `note`
  latent,     // multi-head latent attention (DeepSeek): known, not runnable, likewise
  cacheless,  // no attention at all (feed-forward only): known, not runnable, likewise
};
const char* layer_kind_name(LayerKind kind);  // "full", "sliding", ...

// Rotary position embedding, half-split pairing (i, i + rotary_dim / 2).
struct RopeSpec {
  enum class Scaling { none, linear, llama3, yarn, longrope };
  int rotary_dim = 0;  // 0: no rotary embedding on this layer
  double theta = 10000.0;
  Scaling scaling = Scaling::none;
  double factor = 1.0;            // linear, llama3, yarn
  int original_context = 0;       // llama3, yarn, longrope
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0;        // yarn
  double beta_slow = 1.0;         // yarn
  bool truncate = true;           // yarn: the ends of the ramp are whole pairs
  double attention_factor = 1.0;  // multiplies cos and sin (yarn's mscale, longrope; 1 otherwise)
  std::vector<float> factors;     // per pair: frequency divided by it (GGUF rope_freqs); or empty
  // longrope: in place of `factors` beyond original_context; empty once settle_long_rope() chose.
  std::vector<float> long_factors;
  bool operator==(const RopeSpec&) const = default;
};
// Angle per position of each pair, radians: [rotary_dim / 2]. Scaling applied.
std::vector<float> rope_frequencies(const RopeSpec& rope);

struct LayerSpec {
  LayerKind kind = LayerKind::full;
  int64_t window = 0;  // sliding: tokens in sight; chunked: block size; else 0
  int donor = -1;      // shared: index of the layer whose cache is read
  std::string note;    // what the configuration calls it, e.g. "linear_attention"; or empty
  int heads = 0;
  int kv_heads = 0;
  int k_dim = 0;  // of one head
  int v_dim = 0;
  RopeSpec rope;
  int64_t ffn_hidden = 0;  // 0: ModelConfig::ffn_hidden
  bool v_from_k = false;   // no V projection: V is the K projection's output, before k's norm
  bool experts = false;    // the feed-forward is a mixture of experts (Gemma 4: beside it)
  // Gemma 3n: the gate counts from so many standard deviations above its mean; absent: everywhere.
  std::optional<float> gate_deviations;
};

// clamped_swiglu: gate * sigmoid(alpha * gate) * (up + 1), both cut off at swiglu_limit (GPT-OSS).
enum class Activation { silu, gelu_tanh, clamped_swiglu };
enum class NormKind { rms, layer };  // layer: the mean is taken off first; no bias

struct ModelConfig {
  std::string family;  // "gemma3", "gemma4", "qwen3", ...; models/ registers these
  std::string name;    // for people
  int64_t vocab_size = 0;
  int64_t hidden = 0;
  int64_t ffn_hidden = 0;  // of the widest layer
  float norm_eps = 1e-6f;
  Activation activation = Activation::silu;
  float embedding_scale = 1.0f;    // Gemma: sqrt(hidden)
  float attention_scale = 0.0f;    // multiplies q·k; always set by the loader
  float attention_softcap = 0.0f;  // 0: none
  float logit_softcap = 0.0f;      // 0: none
  bool tied_embeddings = false;
  bool qk_norm = false;               // RMS norm of each q and k head before RoPE
  bool qk_norm_unweighted = false;    // Llama 4: it has no weights; on layers with RoPE alone
  bool qk_norm_whole = false;         // OLMo: one RMS norm over all heads of q, one over those of k
  bool norm_weight_plus_one = false;  // stored norm weights are w - 1 (Gemma safetensors)
  bool attention_bias = false;        // q, k, v (and o where present) carry biases
  bool v_norm = false;                // RMS norm of each v head, without a weight
  NormKind norm = NormKind::rms;      // of all norms but those of q and k
  float logit_scale = 1.0f;           // Cohere: multiplies the logits
  // Ministral 3, Llama 4: queries at position p are multiplied by
  // 1 + beta ln(1 + floor((p + shift) / context)).
  float query_scale_beta = 0.0f;  // 0: they are not
  int64_t query_scale_context = 0;
  int query_scale_shift = 0;
  bool query_scale_no_rope = false;  // on layers without rotary embedding alone
  int64_t trained_context = 0;       // 0: unknown
  int64_t layer_embedding = 0;       // per-layer embeddings: channels of each layer; 0: none
  int64_t layer_vocab = 0;           // rows of their table, row 0 for tokens beyond; 0: vocab_size
  int experts = 0;                   // of each layer that has some; 0: none
  int experts_used = 0;              // by a token
  int64_t expert_hidden = 0;
  bool expert_renormalize = true;  // weights of the chosen experts sum to 1
  bool expert_bias = false;        // router and experts carry biases
  // Llama 4: an expert's input is multiplied by the sigmoid of its router logit.
  bool expert_sigmoid_input = false;
  int64_t shared_expert_hidden = 0;  // Qwen 2, Llama 4: an expert of every token; 0: none
  bool shared_expert_gate = true;    // Qwen 2: behind a gate
  bool attention_sinks = false;      // a learned logit of each head takes part in the softmax
  float swiglu_alpha = 0.0f;
  float swiglu_limit = 0.0f;
  // Gemma 3n. AltUp: the residual is so many streams, of which a layer computes one; 0: it is
  // plain.
  int altup_streams = 0;
  int altup_active = 0;
  float altup_clip = 0.0f;          // bound on the weights of its maps; 0: none
  bool altup_scale_output = false;  // factors of what per-layer embeddings are gated by
  // LAuReL: rank of a branch beside attention; 0: there is none.
  int64_t laurel_rank = 0;
  std::vector<LayerSpec> layers;
};

inline int64_t layer_vocab_of(const ModelConfig& config) {
  return config.layer_vocab > 0 ? config.layer_vocab : config.vocab_size;
}

inline int64_t ffn_hidden_of(const ModelConfig& config, const LayerSpec& layer) {
  return layer.ffn_hidden > 0 ? layer.ffn_hidden : config.ffn_hidden;
}

// Settles on one set of longrope factors for positions below `length`: the long ones where that
// exceeds the original context. Layers without are left alone.
void settle_long_rope(ModelConfig& config, int64_t length);

}  // namespace ringkeep
