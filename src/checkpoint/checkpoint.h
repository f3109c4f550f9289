// A model on disk: MODEL is a .gguf file (or the first of a split set), a folder with config.json
// and safetensors (Hugging Face or MLX), an `org/name` found in the local Hugging Face cache, or
// `demo`. Opening maps files and checks every size; nothing is copied.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "config/model_config.h"
#include "config/tokenizer_data.h"
#include "quant/source_tensor.h"

namespace ringkeep::checkpoint {

enum class Format { gguf, safetensors };

struct TensorTable {
  std::vector<MappedFile> files;
  std::map<std::string, quant::SourceTensor> tensors;  // by the file's own name
  const quant::SourceTensor* find(const std::string& name) const;
};

struct Checkpoint {
  Format format = Format::gguf;
  std::string path;  // resolved
  ModelConfig config;
  TokenizerData tokenizer;  // kind none when the checkpoint has no tokenizer
  TensorTable table;        // empty when opened without weights
  std::vector<std::pair<std::string, std::string>> metadata;  // for `inspect`, in file order
};

struct OpenOptions {
  bool weights = true;    // false: configuration and tokenizer only; weights need not be present
  bool tokenizer = true;  // false: leave the tokenizer out (plan needs none)
};

// Errors (input) name the file, and the key or tensor, with what was expected and found.
Result<Checkpoint> open(const std::string& model, const OpenOptions& options = {});

// The file or folder that MODEL stands for (`demo`, org/name, path).
Result<std::string> resolve(const std::string& model);

// The parsers of untrusted bytes, on their own for tests and fuzzing.
Result<ModelConfig> parse_hf_config(const std::string& json_text);
Result<TokenizerData> parse_tokenizer_json(const std::string& json_text);

}  // namespace ringkeep::checkpoint
