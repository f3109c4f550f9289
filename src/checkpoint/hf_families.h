// What single families say in config.json beside the common keys.
#pragma once

#include "base/result.h"
#include "checkpoint/json_fields.h"
#include "config/model_config.h"

namespace ringkeep::checkpoint {

// `config` with its layers, as far as the common keys go. Errors (input): values that do not fit,
// options of a known family that its forward pass here does not have.
Status read_family(const JsonFields& text, ModelConfig& config);

}  // namespace ringkeep::checkpoint
