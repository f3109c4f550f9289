#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_split.h"
#include "checkpoint/hf_folder.h"

namespace ringkeep::checkpoint {

namespace {

Result<Checkpoint> open_gguf_model(const std::string& path, const OpenOptions& options) {
  GgufSet set = RK_TRY(open_gguf(path, options.weights));
  Checkpoint checkpoint;
  checkpoint.format = Format::gguf;
  checkpoint.path = path;
  checkpoint.config = RK_TRY(gguf_config(set.model));
  if (options.tokenizer) checkpoint.tokenizer = RK_TRY(gguf_tokenizer(set.model.head()));
  for (const GgufValue& value : set.model.head().values())
    checkpoint.metadata.emplace_back(std::string(value.key), describe(value));
  if (!options.weights) return checkpoint;
  for (size_t part = 0; part < set.model.parts.size(); ++part)
    for (const quant::SourceTensor& tensor : set.model.parts[part].tensors()) {
      quant::SourceTensor& entry = checkpoint.table.tensors[tensor.name] = tensor;
      entry.file = static_cast<int>(part);
    }
  checkpoint.table.files = std::move(set.files);
  return checkpoint;
}

}  // namespace

const quant::SourceTensor* TensorTable::find(const std::string& name) const {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

Result<Checkpoint> open(const std::string& model, const OpenOptions& options) {
  const std::string path = RK_TRY(resolve(model));
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return open_hf_folder(path, options);
  if (std::filesystem::path(path).filename() ==
      "config.json") {  // plan needs no more than this file
    if (options.weights)
      return input_error("{}: weights are needed; give the folder instead of its config.json",
                         path);
    const auto parent = std::filesystem::path(path).parent_path();
    return open_hf_folder(parent.empty() ? "." : parent.string(), options);
  }
  return open_gguf_model(path, options);
}

}  // namespace ringkeep::checkpoint
