// One group of weights: the pair of scale and bias to store it with.
#pragma once

#include <cstdint>

#include "quant/affine.h"

namespace ringkeep::quant {

inline constexpr int kLargestGroup = 128;

struct AffinePair {
  float scale = 0.0f;  // of either sign: MLX puts the bias at the end of larger magnitude
  float bias = 0.0f;
};

float round_to(float value, ScaleKind kind);  // to nearest in that type

// The pair of mlx.core.quantize for x [group], before it is rounded to the type of the scales.
AffinePair min_max_pair(const float* x, int group, int bits);

class AffineSearch {
 public:
  explicit AffineSearch(const AffineTarget& target);

  // The best pair found for x [group], as stored, and the codes that go with it. `importance`
  // [group] weighs the error, null: all alike.
  AffinePair best(const float* x, const float* importance, uint8_t* codes);

 private:
  // What one pass over the group finds for a pair: the error of the nearest codes, and the sums
  // that least squares needs for those codes.
  struct Pass {
    float error = 0.0f;
    float q = 0.0f, qq = 0.0f, qx = 0.0f;  // sums of w q, w q^2, w q x
  };
  Pass pass(const AffinePair& pair) const;
  bool fit(const Pass& pass, AffinePair& pair) const;  // false: the codes are all one
  bool consider(const AffinePair& pair, Pass& out);    // true: it is the best so far
  void climb(AffinePair pair);
  void polish();

  AffineTarget target_;
  float levels_;
  float narrowest_;
  float x_[kLargestGroup];
  float w_[kLargestGroup];
  double w_sum_ = 0.0, x_sum_ = 0.0;
  AffinePair best_;
  Pass best_pass_;
};

}  // namespace ringkeep::quant
