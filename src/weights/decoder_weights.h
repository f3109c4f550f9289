// The weights of a decoder-only transformer, whatever file they came from.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "weights/balance.h"
#include "weights/expert_cache.h"
#include "weights/mapped_table.h"
#include "weights/packed.h"

namespace ringkeep::weights {

// A mixture of experts.
struct ExpertWeights {
  OwnedTensor router;         // [experts, hidden]
  OwnedVector router_bias;    // [experts]
  OwnedVector router_norm;    // [hidden] Gemma 4: of the norm before it, / sqrt(hidden)
  OwnedVector scale;          // [experts] Gemma 4
  OwnedStack gate, up, down;  // [experts][expert_hidden, hidden], ..., transposed
  OwnedVector gate_bias, up_bias, down_bias;  // [experts, outputs]
  int cached = -1;  // the layer's number in DecoderWeights::expert_cache; -1: all are in memory
  OwnedTensor shared_router;  // [1, hidden] Qwen 2: its gate
  OwnedTensor shared_gate, shared_up, shared_down;
  explicit operator bool() const { return gate.stack.count > 0; }
};

// AltUp, with n streams. The maps are clipped as the configuration asks.
struct AltUpWeights {
  OwnedVector router_norm;       // [hidden], divided by hidden
  OwnedTensor router;            // [n, hidden]
  OwnedVector predict, correct;  // [n * n, n], [n, n]
  OwnedVector scale;             // [hidden]; empty where the output has none
};

// LAuReL: a low-rank branch.
struct LaurelWeights {
  OwnedTensor left, right;  // [rank, hidden], [hidden, rank]
  OwnedVector norm;         // [hidden]
};

// Matrices are [outputs, inputs]. Optional parts are empty where the family has none.
struct LayerWeights {
  OwnedVector attn_norm;   // [hidden]
  OwnedTensor q, k, v, o;  // [heads * k_dim, hidden], ..., [hidden, heads * v_dim]
  OwnedVector q_bias, k_bias, v_bias, o_bias;
  OwnedVector q_norm, k_norm;  // [k_dim]
  // OLMo: [heads * k_dim], [kv_heads * k_dim]
  OwnedVector q_norm_whole, k_norm_whole;
  OwnedVector post_attn_norm;  // [hidden] Gemma, OLMo: on the branch, before the residual sum
  OwnedVector ffn_norm;        // [hidden]
  OwnedTensor gate, up, down;  // [ffn, hidden], [ffn, hidden], [hidden, ffn]
  OwnedVector post_ffn_norm;   // [hidden]
  // Per-layer embeddings: [layer_embedding, hidden], [hidden, layer_embedding], [hidden]
  OwnedTensor layer_gate, layer_proj;
  OwnedVector layer_proj_norm;
  OwnedVector out_scale;  // [hidden], one value: multiplies the layer's output
  OwnedVector sinks;      // [heads]
  ExpertWeights experts;  // in place of gate, up, down; Gemma 4: beside them
  OwnedVector post_ffn_norm_1, pre_ffn_norm_2, post_ffn_norm_2;  // [hidden] Gemma 4
  AltUpWeights altup;
  LaurelWeights laurel;
};

struct DecoderWeights {
  OwnedTensor embedding;   // [vocab, hidden]
  OwnedTensor lm_head;     // [vocab, hidden]; empty when tied to the embedding
  OwnedVector final_norm;  // [hidden]
  // Per-layer embeddings, for all layers L: [layer_vocab, L * layer_embedding], read row by row
  // from the file; [L * layer_embedding, hidden]; [layer_embedding], divided by sqrt(2)
  MappedTable layer_embedding;
  OwnedTensor layer_model_proj;
  OwnedVector layer_model_norm;
  std::vector<OwnedTensor> altup_proj, altup_unembed;  // [streams - 1] of [hidden, hidden]
  std::vector<LayerWeights> layers;
  KeyBalance balance;  // [layers] without data, from q and k norms; empty where there are none
  std::unique_ptr<ExpertCache> expert_cache;  // of all layers; null: all experts are in memory
  size_t packed_bytes = 0;                    // of all matrices and vectors
  size_t decode_bytes = 0;  // read by one decode step: all but experts that a token does not use
  size_t expert_bytes = 0;  // of packed_bytes, in matrices of experts
  size_t active_expert_bytes = 0;  // of these, read for one token

  const kernels::PackedTensor& head() const { return lm_head ? lm_head.tensor : embedding.tensor; }
};

// Finds every tensor under its GGUF or Hugging Face name, checks its shape against the
// configuration, and repacks it; experts beyond PackOptions::expert_memory stay in the file. The
// checkpoint must live as long as the weights where these have a MappedTable or an ExpertCache.
// Errors (input) name the tensor, the expected and the found shape.
Result<DecoderWeights> load_decoder(const checkpoint::Checkpoint& checkpoint,
                                    const PackOptions& options, const kernels::Ops& ops,
                                    kernels::Device& device);

// Bytes that the packed weights would take, from the tensor table alone.
struct PackedBytes {
  size_t all = 0;
  size_t experts = 0;                    // of all, in matrices of experts
  size_t largest_expert = 0;             // of all layers; with gate, up and down
  std::set<std::string> expert_tensors;  // those matrices in the checkpoint
  // Not among them: what stays in the file in any case (a MappedTable).
  std::set<std::string> mapped_tensors;
  // Of all, what is held for one token: `used` of `count` experts.
  size_t active(int used, int count) const {
    return count > 0
               ? all - experts + experts / static_cast<size_t>(count) * static_cast<size_t>(used)
               : all;
  }
};
Result<PackedBytes> packed_bytes(const checkpoint::Checkpoint& checkpoint,
                                 const PackOptions& options, const kernels::Ops& ops);

}  // namespace ringkeep::weights
