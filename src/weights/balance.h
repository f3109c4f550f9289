// K balance: keys are multiplied per channel by c and queries divided by it, which leaves every
// score as it is and evens out the channels before K is quantized (docs/kv-codecs.md). Models fold
// c into a copy of their q and k norm weights (models/blocks/qk_norms.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "quant/source_tensor.h"

namespace ringkeep::weights {

// Factors c of every layer: [k_dim] (the same for every KV head) or [kv_heads, k_dim]; empty: 1.
using KeyBalance = std::vector<std::vector<float>>;

// c [dim] of one head from how large its channels are: sqrt(rms q / rms k), where the rms is taken
// over a rotary pair (i, i + rotary_dim / 2), so that c commutes with the rotation; geometric
// mean 1. Each rms is floored at 1e-3 of the largest. `q` and `k` [dim]: measured (KeyStatistics),
// or expected without data (expected_channels).
std::vector<float> key_balance(const std::vector<float>& q, const std::vector<float>& k,
                               int rotary_dim);

// The length of each row of a projection [rows, cols] whose input channels are of the sizes `input`
// [cols], the weights of the norm before it: how large its outputs are for inputs in no particular
// direction. In parallel; each value depends on its row alone.
std::vector<float> row_lengths(const quant::SourceTensor& projection, std::span<const float> input,
                               ThreadPool& pool);

// How large the channels of heads are behind their norm: lengths [heads, dim] of the rows that make
// them, each head's scaled to a mean square of 1 as the norm does, pooled over the heads, times the
// norm's weights [dim].
std::vector<float> expected_channels(std::span<const float> lengths,
                                     std::span<const float> weights);

}  // namespace ringkeep::weights
