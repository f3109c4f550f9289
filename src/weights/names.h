// Tensor names of decoder models in GGUF and in Hugging Face (and MLX) checkpoints.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"

namespace ringkeep::weights {

enum class Part {
  embedding,
  lm_head,
  final_norm,
  altup_proj,        // AltUp: from the first stream to another,
  altup_unembed,     // and back (`layer` counts those others)
  layer_embedding,   // per-layer embeddings: the table,
  layer_model_proj,  // what the token's embedding adds to them,
  layer_model_norm,  // and the norm of that; so far model-wide
  attn_norm,
  q,
  k,
  v,
  o,
  q_norm,
  k_norm,
  post_attn_norm,
  ffn_norm,
  gate,
  up,
  down,
  post_ffn_norm,
  qkv,              // q, k and v in one matrix
  gate_up,          // gate and up in one matrix
  layer_gate,       // of the per-layer embedding
  layer_proj,       // back to hidden
  layer_proj_norm,  // of that branch
  out_scale,        // one number that multiplies the layer's output
  sinks,            // logits of the heads in attention
  router,           // of a mixture of experts
  router_norm,      // Gemma 4: the weights of the norm before it
  expert_gate,      // stacks [experts, ..], see weights/experts.h
  expert_up,
  expert_down,
  expert_gate_up,  // gate and up in one stack
  expert_scale,    // Gemma 4: multiplies an expert's weight
  shared_router,   // Qwen 2: the gate of the expert of every token,
  shared_gate,     // and that expert
  shared_up,
  shared_down,
  post_ffn_norm_1,  // Gemma 4: of the dense branch,
  pre_ffn_norm_2,   // before the experts,
  post_ffn_norm_2,  // and of their branch
  altup_router,     // AltUp: a row's modalities,
  altup_router_norm,
  altup_predict,  // the maps from these to what streams exchange,
  altup_correct,
  altup_scale,   // and factors of the corrected output
  laurel_left,   // LAuReL: to the rank,
  laurel_right,  // and back,
  laurel_norm,
};

// Which norms of [hidden] a family has around its two branches.
struct BranchNorms {
  bool attn = true, post_attn = false;
  bool ffn = true, post_ffn = false;
};
BranchNorms branch_norms(const ModelConfig& config);

// Whether q and k rows are stored for interleaved rotary pairs (2i, 2i + 1).
bool interleaved_rows(const ModelConfig& config, checkpoint::Format format);

// The name of a part without ".weight" / ".bias" (sinks, router_norm, expert_scale and altup_scale:
// the whole name); `layer` is ignored for model-wide parts, but for AltUp's. `prefix` is what
// Hugging Face names begin with (find_prefix). Parts of experts are named as MLX does.
std::string part_name(Part part, int layer, const ModelConfig& config, checkpoint::Format format,
                      const std::string& prefix);

// "model.", "language_model.model.", "model.language_model." or "": whichever the table uses.
std::string find_prefix(const checkpoint::TensorTable& table, checkpoint::Format format);

}  // namespace ringkeep::weights
