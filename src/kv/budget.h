// --kv-budget BYTES: the best mix of codecs, by layer kind, whose cache fits.
//
// A codec costs what it adds to the mean divergence (KLD in nats, 4,096 tokens of technical prose,
// Gemma 3 270M, K balanced from the norm weights, no hot tier) when all layers use it:
//
//   f16 0   8 .00024   K8V6 .0006   6 .0031   K6V4 .0077   5 .0118   K5V4 .0155   4 .044
//   3.5 .061   3 .17      (docs/kv-codecs.md)
//
// K's error weighs most, so bits go to K first: K6V4 comes before 5, which takes the same bytes.
// What layers of one kind cost is in proportion to their number: 8 bits on sliding layers and 4 on
// full ones gave 18 % of the divergence of 4 bits everywhere, where 17 % of the layers are full.
// So the cost of a mix is the mean over the layers. Sliding and chunked layers are bounded, and
// their further bits are cheap at long context.
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

// Mean cost over the layers of a plan whose full layers use `full` and others `sliding`.
double mix_cost(const KvPlan& plan, const BudgetCodec& full, const BudgetCodec& sliding);

}  // namespace ringkeep::kv
