// What Gemma 3n adds to GGUF metadata: see checkpoint/hf_gemma3n.h.
#pragma once

#include "base/result.h"
#include "checkpoint/gguf_model.h"
#include "config/model_config.h"

namespace ringkeep::checkpoint {

// Completes a configuration whose general keys have been read. Errors (input) name the key.
Status read_gguf_gemma3n(const GgufModel& model, ModelConfig& config);

}  // namespace ringkeep::checkpoint
