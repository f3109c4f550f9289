// Where the time of a run goes: what each op took, told apart by what distinguishes its uses
// (the shape and weights of a product, the kind of an attention layer).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "kernels/api/params.h"

namespace ringkeep::kernels {

struct OpCost {
  int64_t calls = 0;
  double seconds = 0;
  double bytes = 0;       // of weights read, or of rows of the cache in sight
  double operations = 0;  // multiplications and additions of products
};

class OpProfile {
 public:
  const std::map<std::string, OpCost>& costs() const { return costs_; }
  void clear() { costs_.clear(); }

  template <typename Params>
  void add(const Params& params, double seconds) {
    OpCost cost;
    const std::string use = describe(params, cost);
    OpCost& sum = costs_[use];
    ++sum.calls;
    sum.seconds += seconds;
    sum.bytes += cost.bytes;
    sum.operations += cost.operations;
  }

 private:
  static std::string describe(const LinearParams& p, OpCost& cost);
  static std::string describe(const GroupedLinearParams& p, OpCost& cost);
  static std::string describe(const RouteParams&, OpCost&) { return "route"; }
  static std::string describe(const CombineParams&, OpCost&) { return "combine"; }
  static std::string describe(const EmbedParams& p, OpCost& cost);
  static std::string describe(const AttentionParams& p, OpCost& cost);
  static std::string describe(const RmsNormParams&, OpCost&) { return "rms_norm"; }
  static std::string describe(const RopeTableParams&, OpCost&) { return "rope_table"; }
  static std::string describe(const NormRopeParams&, OpCost&) { return "norm_rope"; }
  static std::string describe(const GluParams&, OpCost&) { return "glu"; }
  static std::string describe(const AddParams&, OpCost&) { return "add"; }
  static std::string describe(const SoftcapParams&, OpCost&) { return "softcap"; }
  static std::string describe(const GaussianTopKParams&, OpCost&) { return "gaussian_topk"; }
  static std::string describe(const MatchRmsParams&, OpCost&) { return "match_rms"; }
  static std::string describe(const AltUpPredictParams&, OpCost&) { return "altup_predict"; }
  static std::string describe(const AltUpCorrectParams&, OpCost&) { return "altup_correct"; }
  static std::string describe(const KvAppendParams&, OpCost&) { return "kv_append"; }
  static std::string describe(const KvReadParams&, OpCost&) { return "kv_read"; }

  std::map<std::string, OpCost> costs_;
};

}  // namespace ringkeep::kernels
