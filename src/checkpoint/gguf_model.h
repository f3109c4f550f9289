// What a GGUF model says about itself: configuration and tokenizer from the metadata of its first
// part, tensors of all parts.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/gguf.h"
#include "config/model_config.h"
#include "config/tokenizer_data.h"

namespace ringkeep::checkpoint {

struct GgufModel {
  std::vector<GgufFile> parts;  // one, or the whole split set in order
  bool complete = true;         // false: opened without weights, and later parts are missing
  const GgufFile& head() const { return parts.front(); }
  const quant::SourceTensor* find_tensor(std::string_view name) const;
};

// Errors (input) name the file and the key. Any architecture whose metadata has the usual decoder
// keys is described; whether it can run is decided by models/.
Result<ModelConfig> gguf_config(const GgufModel& model);

// Kind none, with a note, for a tokenizer that is missing or of another kind.
Result<TokenizerData> gguf_tokenizer(const GgufFile& file);

}  // namespace ringkeep::checkpoint
