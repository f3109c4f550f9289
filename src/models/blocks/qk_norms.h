// The weights that q and k heads are multiplied by before RoPE: those of the q and k norms where
// the model has them, with the K balance folded in.
#pragma once

#include <vector>

#include "base/result.h"
#include "config/model_config.h"
#include "weights/decoder_weights.h"

namespace ringkeep::models {

struct HeadScale {
  const float* weights = nullptr;  // [heads or 1, k_dim]; null: 1, and no norm
  int64_t head_stride = 0;         // 0: the same for all heads
  bool normalize = true;           // RMS norm first
};

// One layer's. Without a balance it refers to the norm weights of the layer themselves.
class QkNorms {
 public:
  QkNorms() = default;
  // q weights / c and k weights * c, where a weight is 1 without norms. c: [k_dim],
  // [kv_heads, k_dim] or empty (1); query head h has the c of KV head h / (heads / kv_heads).
  static Result<QkNorms> fold(const LayerSpec& spec, const weights::LayerWeights& layer,
                              const std::vector<float>& c, kernels::Device& device);

  HeadScale q(const weights::LayerWeights& w) const { return scale(q_, w.q_norm); }
  HeadScale k(const weights::LayerWeights& w) const { return scale(k_, w.k_norm); }

 private:
  HeadScale scale(const weights::OwnedVector& folded, const weights::OwnedVector& plain) const {
    if (folded.size == 0) return {plain.data(), 0, true};
    return {folded.data(), head_stride_, plain.size > 0};
  }

  weights::OwnedVector q_, k_;  // [heads or 1, k_dim]; empty: no balance
  int64_t head_stride_ = 0;
};

}  // namespace ringkeep::models
