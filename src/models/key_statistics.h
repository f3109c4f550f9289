// What calibration measures: how large the channels of Q and K are, layer by layer.
#pragma once

#include <cstdint>
#include <vector>

#include "config/model_config.h"
#include "kernels/api/device.h"
#include "weights/balance.h"

namespace ringkeep::models {

struct KeyStatistics {
  struct Layer {
    int64_t rows = 0;
    size_t kv_heads = 0;
    std::vector<double>
        q;  // [kv_heads, k_dim] sums of squares, mean over the heads of the group, sum over layers
    std::vector<double> k;  // [kv_heads, k_dim] sums of squares
  };
  std::vector<Layer> layers;

  // Adds rows of Q [rows, heads, k_dim] and K [rows, kv_heads, k_dim] after RoPE, which leaves the
  // mean square of a rotary pair as it is. The queries of a layer that shares a cache count beside
  // those of its donor; it has no K (null).
  void add(const LayerSpec& spec, size_t layer, int64_t rows, const float* q, const float* k,
           kernels::Device& device);

  // The balance that these sizes ask for: c = sqrt(rms q / rms k) of each pair, see
  // weights::key_balance. [layers]: [kv_heads, k_dim]; empty where nothing was measured.
  weights::KeyBalance balance(const ModelConfig& config) const;

  // How much noise an even quantization error of the balanced keys makes in the scores, over the
  // least that any balance can reach: mean over layers and KV heads, 1 or more. The error of a
  // channel goes with the norm of the whole balanced key, sqrt(sum (c k)^2), and is weighed by
  // q / c.
  double score_noise(const weights::KeyBalance& balance) const;
};

}  // namespace ringkeep::models
