// The normalizer, pre-tokenizer, post-processor and decoder of a tokenizer.json, as far as a
// TokenizerData can express them.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/json_fields.h"
#include "config/tokenizer_data.h"

namespace ringkeep::checkpoint {

// Whether the vocabulary is written in the byte alphabet of GPT-2.
bool is_byte_level(const Json& tokenizer);

// Fills nfc, pre_patterns, split_digits, add_space_prefix. `data.kind` must be set. What cannot be
// expressed is named in the returned text; empty when all could.
Result<std::string> read_text_steps(const Json& tokenizer, TokenizerData& data);

// add_bos and add_eos with their ids, from a TemplateProcessing step. Returns as above.
Result<std::string> read_template_step(const Json& tokenizer, TokenizerData& data);

}  // namespace ringkeep::checkpoint
