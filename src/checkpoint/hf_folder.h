// A folder with config.json and safetensors: Hugging Face or MLX.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace ringkeep::checkpoint {

// Errors (input): config.json, a missing or invalid shard, a tensor that the index names and its
// shard lacks, quantized modules that contradict config.json.
Result<Checkpoint> open_hf_folder(const std::string& folder, const OpenOptions& options);

}  // namespace ringkeep::checkpoint
