// --kv-budget BYTES: the best mix of codecs, by layer kind, whose cache fits.
//
// A codec costs what it adds to the mean divergence when all layers use it: KLD in nats, `eval kv
// demo --exact` on 4,096 tokens of debian-handbook, K balanced from the norm weights, hot tier at
// its default:
//
//   f16 0   8 .00030   K8V6 .00036   6 .00101   K6V4 .00163   5 .00214   K5V4 .00273   4 .0107
//   3.5 .0122   3 .0304
//
// K's error weighs most, so bits go to K first: K6V4 comes before 5, which takes the same bytes.
//
// The cost of a mix is a mean over the layers. With a hot tier the narrow rows of a sliding layer
// are few beside its 8-bit ones, and its codec matters little: 3 full layers alone gave .0093 at 4
// bits, .0005 at 6 and .019 at 3, 15 sliding ones .0020, .0003 and .009 (`--ablate`). So a full
// layer counts as kFullLayerWeight sliding ones. Without a hot tier (--kv-hot none) all layers
// count alike: there 8 bits on sliding layers and 4 on full ones gave 18 % of the divergence of 4
// bits everywhere, where 17 % of the layers are full.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kv/plan.h"

namespace ringkeep::kv {

// "512M", "1.5GiB", "2 GB", "1000000": K M G T and KiB ... are powers of 1024, KB ... of 1000.
// Errors (usage): no such number, less than a byte, more than 2^46.
Result<size_t> parse_bytes(std::string_view text);

struct BudgetCodec {
  const char* name;  // as --kv-bits takes it
  double cost;
};
// The codecs that a budget chooses from, best first.
std::span<const BudgetCodec> budget_codecs();

// The plan of the cheapest mix with kv_bytes + kv_prefill_bytes <= flags.kv_budget; its
// `budget_codec` says which. Of equal costs the smaller cache. A refusal of the whole cache when
// even the smallest does not fit. Errors (usage): as make_plan; codecs given beside the budget.
Result<KvPlan> plan_for_budget(const ModelConfig& config, const CacheFlags& flags,
                               const kernels::Ops& ops);

// How many sliding (or chunked) layers a full one counts as where there is a hot tier.
inline constexpr double kFullLayerWeight = 12.0;

// Mean cost over the layers of a plan whose full layers, each counting as `full_weight` others, use
// `full` and others `sliding`.
double mix_cost(const KvPlan& plan, const BudgetCodec& full, const BudgetCodec& sliding,
                double full_weight);

}  // namespace ringkeep::kv
