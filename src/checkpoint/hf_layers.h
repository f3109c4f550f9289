// Which layers attend to what, from the many ways in which config.json says so.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/json_fields.h"
#include "config/model_config.h"

namespace ringkeep::checkpoint {

// Kind, window and note of each layer; the rest of each LayerSpec is left as it is.
// `model_type` as the configuration has it. Errors (input): lists of the wrong length, a sliding
// layer without a window.
Status read_layer_kinds(const JsonFields& config, const std::string& model_type,
                        std::vector<LayerSpec>& layers);

// Tokens of a chunk; 0: there is no attention_chunk_size, and none by default.
Result<int64_t> read_chunk_size(const JsonFields& config, const std::string& model_type);

// Which layers have a rotary embedding (SmolLM 3, Llama 4): no_rope_layers has 1 for these, and 0
// for the others; without it all but every no_rope_layer_interval-th. [layers]
Result<std::vector<bool>> read_rotating_layers(const JsonFields& config, size_t layers);

// Gemma 3n and 4: the last `count` layers read the cache of the last layer of their kind that has
// its own. Errors (input): there is no such layer. `where` begins the message.
Status share_last_layers(const std::string& where, int64_t count, std::vector<LayerSpec>& layers);

}  // namespace ringkeep::checkpoint
