// What Gemma 3n (text) adds to config.json: AltUp, LAuReL, per-layer embeddings, feed-forwards of
// their own widths, sparse gates.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/json_fields.h"
#include "config/model_config.h"

namespace ringkeep::checkpoint {

bool is_gemma3n(const std::string& model_type);  // gemma3n, gemma3n_text

// Completes a configuration whose general keys and layer kinds have been read. `text` is the text
// part. Errors (input): values out of range, arrays of a wrong length, by name.
Status read_hf_gemma3n(const JsonFields& text, ModelConfig& config);

// The x below which a standard normal variable stays with probability p, 0 < p < 1.
double normal_quantile(double p);

}  // namespace ringkeep::checkpoint
