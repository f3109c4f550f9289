// Everything that a conversion will write, down to the byte, from the headers of the source alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors_writer.h"
#include "convert/modules.h"
#include "convert/settings.h"
#include "quant/affine.h"

namespace ringkeep::convert {

struct Options {
  Setting asked{4, 64};
  std::optional<quant::SourceType> dtype;  // f16, bf16, f32; none: what config.json says
  quant::AffineMethod method = quant::AffineMethod::search;
  std::vector<std::string> overrides;      // see Override
  int64_t shard_bytes = int64_t{5} << 30;  // of tensors; a module is never cut
};

struct PlannedModule {
  Module module;
  Setting setting;
  quant::SourceType type = quant::SourceType::other;  // of what is kept, or of scales and biases
  // As written: the tensor, or its codes, scales and biases.
  std::vector<checkpoint::SafetensorsEntry> entries;
  size_t bytes = 0;
};

struct Shard {
  std::string file;  // "model-00001-of-00002.safetensors"
  size_t first = 0;  // modules [first, last)
  size_t last = 0;
  size_t bytes = 0;  // of tensors
};

struct Plan {
  Options options;
  std::optional<quant::SourceType> dtype;  // none: every tensor keeps its own
  std::vector<PlannedModule> modules;
  std::vector<Shard> shards;
  std::vector<std::string> left_out;
  std::vector<std::string> uneven;  // modules kept because the group does not divide their columns
  size_t bytes = 0;                 // of all tensors
};

// `config`: the text of config.json. Errors: usage (a rule that is none, or matches no module),
// input (GGUF, a family that is not known, weights that are quantized already; see list_modules).
Result<Plan> make_plan(const checkpoint::Checkpoint& checkpoint, const std::string& config,
                       const Options& options);

// "f16", "bf16", "f32" and the names of PyTorch; nullopt for others.
std::optional<quant::SourceType> dtype_of(const std::string& name);
const char* dtype_text(quant::SourceType type);  // "float16", "bfloat16", "float32"
size_t dtype_bytes(quant::SourceType type);

// config.json of the result: the source's with `quantization` and `quantization_config` as mlx-lm
// writes them.
Result<std::string> config_text(const Plan& plan, const std::string& source);
// model.safetensors.index.json
std::string index_text(const Plan& plan);

}  // namespace ringkeep::convert
