// The caches that a run compares: the codecs as the user wrote them, and parts of them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/cache_flags.h"
#include "config/model_config.h"
#include "kernels/api/ops.h"

namespace ringkeep::eval {

// One cache to measure.
struct Case {
  std::string codec;         // as the user wrote it
  std::string part = "all";  // what of it is quantized: all, K, V, sliding, full
  CacheFlags flags;
  bool exact = false;                 // float32 activations in the weight products
  bool is_f16 = false;                // nothing is quantized: the reference itself
  int64_t kv_bytes = 0;               // planned, of one sequence of ctx tokens
  std::vector<std::string> warnings;  // of the plan
  std::optional<int> k_bits, v_bits;  // 16 for f16; none where layers differ

  // Names the cache among results of one run.
  std::string key() const;
};

// `part` of a codec, the rest f16. Errors: as kv::codec_for.
CacheFlags flags_of_part(const CacheFlags& base, const std::string& codec, const std::string& part);

// Every codec (with `only` "sliding" or "full": on those layers alone; "": all), in the order
// given. Refusals of all of them are one error (kind `refused`) that names the codec; an unknown
// one is usage.
Result<std::vector<Case>> make_cases(std::span<const std::string> codecs, const std::string& only,
                                     const CacheFlags& base, bool exact, const ModelConfig& config,
                                     const kernels::Ops& ops);

// The parts of each case that can be told apart in this model: K, V and, where there are both
// kinds of layers, sliding and full.
Result<std::vector<Case>> make_ablation(std::span<const Case> cases, const CacheFlags& base,
                                        const ModelConfig& config, const kernels::Ops& ops);

// The f16 cache under the same flags.
Case reference_case(const CacheFlags& base, bool exact);

bool has_kind(const ModelConfig& config,
              const std::string& kind);  // "sliding" (or chunked), "full"

}  // namespace ringkeep::eval
