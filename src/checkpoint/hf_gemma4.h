// What Gemma 4 (text) adds to config.json: heads that differ by layer kind, values taken from keys,
// per-layer embeddings, wide feed-forwards of sharing layers, experts.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/json_fields.h"
#include "config/model_config.h"

namespace ringkeep::checkpoint {

// gemma4, gemma4_text, gemma4_unified, gemma4_unified_text.
bool is_gemma4(const std::string& model_type);

// Completes a configuration whose general keys and layer kinds have been read. `text` is the text
// part. Errors (input): values out of range, options that are not supported, by name.
Status read_hf_gemma4(const JsonFields& text, const std::string& model_type, ModelConfig& config);

}  // namespace ringkeep::checkpoint
