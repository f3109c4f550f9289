// How the experts of a GGUF model are weighed.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/gguf.h"
#include "config/model_config.h"

namespace ringkeep::checkpoint {

// Keys ARCH.expert_gating_func and ARCH.expert_weights_norm (llama.cpp's names and values), which
// most files leave to the family: softmax over all experts (1), or over the chosen ones (3), which
// is the same where weights are made to sum to 1. `config.expert_renormalize` comes with the
// family's rule and leaves with the file's. Errors (input): another function, by the key's name.
Status read_expert_gating(const GgufFile& file, const std::string& arch, ModelConfig& config);

}  // namespace ringkeep::checkpoint
