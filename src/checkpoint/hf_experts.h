// What families with a mixture of experts say in config.json beside the common keys (Gemma 4:
// hf_gemma4.h).
#pragma once

#include "base/result.h"
#include "checkpoint/json_fields.h"
#include "config/model_config.h"

namespace ringkeep::checkpoint {

// Complete a configuration with its layers. Errors (input): values out of range or missing, options
// that are not supported, by name.
Status read_qwen_experts(const JsonFields& text, ModelConfig& config);  // qwen2_moe, qwen3_moe
Status read_gpt_oss(const JsonFields& text, ModelConfig& config);

}  // namespace ringkeep::checkpoint
