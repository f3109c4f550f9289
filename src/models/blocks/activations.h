// The float32 buffers of a step, and the rotary tables of its positions.
#pragma once

#include <vector>

#include "base/result.h"
#include "config/model_config.h"
#include "kernels/api/ops.h"

namespace ringkeep::models {

inline constexpr int64_t kMaxLogitRows = 32;
inline constexpr int64_t kMaxExpertRows = 512;

struct Activations {
  static Result<Activations> allocate(const ModelConfig& config, int64_t max_rows,
                                      kernels::Device& device);
  static size_t bytes(const ModelConfig& config, int64_t max_rows);

  int64_t max_rows = 0;
  kernels::DeviceBuffer memory;
  float* x = nullptr;            // [rows, hidden]   residual stream
  float* h = nullptr;            // [rows, hidden]   input of a block
  float* branch = nullptr;       // [rows, hidden]   output of a block
  float* q = nullptr;            // [rows, heads * k_dim]
  float* k = nullptr;            // [rows, kv_heads * k_dim]
  float* v = nullptr;            // [rows, kv_heads * v_dim]
  float* attn = nullptr;         // [rows, heads * v_dim]
  float* gate = nullptr;         // [rows, ffn]
  float* up = nullptr;           // [rows, ffn]
  float* layer_in = nullptr;     // [rows, layers * layer_embedding]  per-layer embeddings
  float* layer_gate = nullptr;   // the same size
  float* streams = nullptr;      // [altup_streams, rows, hidden]  AltUp: streams of a step
  float* modalities = nullptr;   // [rows, altup_streams]
  float* laurel = nullptr;       // [rows, hidden]  LAuReL's output
  float* laurel_mid = nullptr;   // [rows, laurel_rank]
  float* picked = nullptr;       // [kMaxLogitRows, hidden]
  float* logits = nullptr;       // [kMaxLogitRows, vocab]
  int32_t* tokens = nullptr;     // [rows]
  int32_t* positions = nullptr;  // [rows]
  float* query_scale = nullptr;  // [rows]; null where queries have none
  // Mixture of experts. Experts see at most kMaxExpertRows rows at a time; a place is a row of one
  // of its experts.
  float* router = nullptr;         // [rows, experts]
  float* routed = nullptr;         // [rows, hidden]  Gemma 4: what the router or the experts read
  float* shared = nullptr;         // [rows, hidden]  another branch's output
  float* shared_gate = nullptr;    // [rows]
  float* expert_gate = nullptr;    // [places, expert_hidden]
  float* expert_up = nullptr;      // [places, expert_hidden]
  float* expert_out = nullptr;     // [places, hidden]
  int32_t* expert = nullptr;       // [places]
  float* expert_weight = nullptr;  // [places]
  float* place_weight = nullptr;   // [places]; null where what experts give is weighted
  int32_t* place = nullptr;        // [places]
  int32_t* row_of = nullptr;       // [places]
  int32_t* begin = nullptr;        // [experts + 1]
  int32_t* fine = nullptr;         // [experts]
  int32_t* non_finite = nullptr;
};

// cos and sin [rows, pairs] of each distinct RoPE of the model, made once a step.
class RopeTables {
 public:
  static Result<RopeTables> create(const ModelConfig& config, int64_t max_rows,
                                   kernels::Device& device);
  static size_t bytes(const ModelConfig& config, int64_t max_rows);
  void fill(const int32_t* positions, int64_t rows, const kernels::Ops& ops, kernels::Exec& exec);

  struct Table {
    RopeSpec rope;
    kernels::DeviceBuffer frequencies;  // [pairs]
    kernels::DeviceBuffer cos;          // [max_rows, pairs]
    kernels::DeviceBuffer sin;
    int64_t pairs = 0;
  };
  // Null for a layer without rotary embedding.
  const Table* of(int layer) const {
    const int index = by_layer_[static_cast<size_t>(layer)];
    return index < 0 ? nullptr : &tables_[static_cast<size_t>(index)];
  }

 private:
  std::vector<Table> tables_;
  std::vector<int> by_layer_;
};

}  // namespace ringkeep::models
