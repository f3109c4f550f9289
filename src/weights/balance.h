// K balance: keys are multiplied per channel by c and queries divided by it, which leaves every
// score as it is and evens out the channels before K is quantized. For models with q and k norms c
// folds into the norm weights, at no cost at run time (docs/kv-codecs.md).
#pragma once

#include <vector>

namespace ringkeep::weights {

// c [dim] from the norm weights [dim] of one head, without data: the rms that the weights give each
// channel. Shared by the channels (i, i + rotary_dim / 2) of a rotary pair, so that it commutes
// with the rotation; geometric mean 1. Channels whose weight is (almost) 0 are floored at 1e-3 of
// the largest.
std::vector<float> balance_from_norms(const std::vector<float>& q_norm,
                                      const std::vector<float>& k_norm, int rotary_dim);

}  // namespace ringkeep::weights
