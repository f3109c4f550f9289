// A LoRA adapter on disk: a folder with adapter_config.json and its tensors, as PEFT
// (adapter_model.safetensors) or mlx-lm (adapters.safetensors) writes it. docs/adapters.md says
// what of both is read, and what is refused. Opening maps the file and checks every size.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "quant/source_tensor.h"

namespace ringkeep::checkpoint {

inline constexpr int64_t kLargestAdapterRank = 1024;

enum class AdapterFormat { peft, mlx };
const char* adapter_format_name(AdapterFormat format);  // "PEFT", "mlx-lm"

// A module's name, or the end of one behind a dot, and what holds for it; the first match counts.
// '.' stands for any character, as in the regular expressions that PEFT takes these for.
template <typename T>
using AdapterPattern = std::vector<std::pair<std::string, T>>;

struct AdapterConfig {
  AdapterFormat format = AdapterFormat::peft;
  int64_t rank = 0;     // without a pattern
  double alpha = 0.0;   // PEFT, without a pattern
  bool rslora = false;  // PEFT: alpha / sqrt(rank) in place of alpha / rank
  AdapterPattern<int64_t> rank_pattern;
  AdapterPattern<double> alpha_pattern;
  double scale = 0.0;             // mlx-lm
  int64_t last_layers = 0;        // mlx-lm: of the model; 0: all
  std::vector<std::string> keys;  // mlx-lm: modules, named within their layer; empty: any

  int64_t rank_of(std::string_view module) const;
  double scale_of(std::string_view module) const;  // what B A is multiplied by
};

struct AdapterFile {
  std::string path;  // the folder
  AdapterConfig config;
  MappedFile file;
  std::vector<quant::SourceTensor> tensors;  // they point into the file
  std::string sha256;                        // of configuration and tensors
};

// Parses adapter_config.json. Errors (input) begin with `name` and name the field: another kind of
// adapter than LoRA, a variant of it that is not read here, values out of bounds.
Result<AdapterConfig> parse_adapter_config(const std::string& json, const std::string& name);

// The folder that PATH stands for: itself, or the snapshot of org/name in the local Hugging Face
// cache.
Result<std::string> resolve_adapter(const std::string& path);

// Errors (input): no such folder, or none of an adapter; see above; a broken tensor file.
Result<AdapterFile> open_adapter(const std::string& path);

}  // namespace ringkeep::checkpoint
