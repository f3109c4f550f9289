// Rotary embeddings from config.json, in the ways of transformers 4 (rope_theta, rope_scaling) and
// 5 (rope_parameters, flat or per layer type).
#pragma once

#include "base/result.h"
#include "checkpoint/json_fields.h"
#include "config/model_config.h"

namespace ringkeep::checkpoint {

struct HfRope {
  RopeSpec full;
  RopeSpec sliding;
};

// `head_dim` of the layers, `context` the trained length. Scaling kinds other than default, linear,
// proportional, llama3, yarn and longrope are an error (input) for the known families and left out
// for others.
Result<HfRope> read_hf_rope(const JsonFields& config, const std::string& family, int64_t head_dim,
                            int64_t context);

}  // namespace ringkeep::checkpoint
