// K balance: keys are multiplied per channel by c and queries divided by it, which leaves every
// score as it is and evens out the channels before K is quantized (docs/kv-codecs.md). Models fold
// c into a copy of their q and k norm weights (models/blocks/qk_norms.h).
#pragma once

#include <vector>

namespace ringkeep::weights {

// Factors c of every layer: [k_dim] (the same for every KV head) or [kv_heads, k_dim]; empty: 1.
using KeyBalance = std::vector<std::vector<float>>;

// c [dim] of one head from how large its channels are: sqrt(rms q / rms k), where the rms is taken
// over a rotary pair (i, i + rotary_dim / 2), so that c commutes with the rotation; geometric
// mean 1. Each rms is floored at 1e-3 of the largest. `q` and `k` [dim]: measured (KeyStatistics),
// or the weights of the q and k norms, which stand for it without data.
std::vector<float> key_balance(const std::vector<float>& q, const std::vector<float>& k,
                               int rotary_dim);

}  // namespace ringkeep::weights
