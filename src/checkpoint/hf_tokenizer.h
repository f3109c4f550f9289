// TokenizerData of a Hugging Face folder: tokenizer.json, tokenizer_config.json,
// generation_config.json, config.json and chat_template.jinja.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/json_fields.h"
#include "config/tokenizer_data.h"

namespace ringkeep::checkpoint {

// parse_tokenizer_json (checkpoint.h) reads what tokenizer.json itself says.

// Special tokens, BOS and EOS rules and the chat template of tokenizer_config.json. `name` begins
// error messages.
Status apply_tokenizer_config(const Json& config, const std::string& name, TokenizerData& data);

// bos_token_id and eos_token_id (one id or several) of config.json or generation_config.json.
// Ids outside the vocabulary are ignored with a warning.
Status apply_special_ids(const Json& config, const std::string& name, TokenizerData& data);

// All of the folder's tokenizer files. Kind none, with a note, without tokenizer.json.
Result<TokenizerData> read_hf_tokenizer(const std::string& folder, const Json& config);

}  // namespace ringkeep::checkpoint
