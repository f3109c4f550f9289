// What Llama 4 (text) says in config.json beside the common keys: chunked layers and layers without
// positions, queries scaled by position, experts and dense layers in between.
#pragma once

#include "base/result.h"
#include "checkpoint/json_fields.h"
#include "config/model_config.h"

namespace ringkeep::checkpoint {

// llama4, llama4_text. Completes a configuration whose general keys have been read. Errors (input):
// values out of range or lists that do not fit, by name.
Status read_hf_llama4(const JsonFields& text, ModelConfig& config);

}  // namespace ringkeep::checkpoint
