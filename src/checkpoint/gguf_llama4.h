// What Llama 4 adds to GGUF metadata.
#pragma once

#include "checkpoint/gguf_model.h"

namespace ringkeep::checkpoint {

// Completes a configuration whose general keys have been read. Errors (input) name the key.
Status read_gguf_llama4(const GgufModel& model, ModelConfig& config);

}  // namespace ringkeep::checkpoint
