#include "checkpoint/adapter.h"

#include <filesystem>

#include "base/sha256.h"
#include "checkpoint/safetensors.h"

namespace ringkeep::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestConfig = size_t{16} << 20;
constexpr const char* kConfigName = "adapter_config.json";
constexpr const char* kPeftTensors = "adapter_model.safetensors";
constexpr const char* kMlxTensors = "adapters.safetensors";

bool present(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

Result<AdapterFile> open_adapter(const std::string& path) {
  AdapterFile adapter;
  adapter.path = RK_TRY(resolve_adapter(path));
  const fs::path folder(adapter.path);
  const std::string config_path = (folder / kConfigName).string();
  if (!present(config_path))
    return input_error("{}: it has no {}: not the folder of an adapter?", adapter.path,
                       kConfigName);
  const std::string text = RK_TRY(read_text_file(config_path, kLargestConfig));
  adapter.config = RK_TRY(parse_adapter_config(text, config_path));
  const bool peft = adapter.config.format == AdapterFormat::peft;
  const std::string tensors_path = (folder / (peft ? kPeftTensors : kMlxTensors)).string();
  if (!present(tensors_path))
    return input_error("{}: its configuration is of {}, but {} is missing{}", adapter.path,
                       adapter_format_name(adapter.config.format),
                       peft ? kPeftTensors : kMlxTensors,
                       peft && present(folder / "adapter_model.bin")
                           ? " (adapter_model.bin can hold a program and is not read: save the "
                             "adapter as safetensors)"
                           : "");
  adapter.file = RK_TRY(MappedFile::open(tensors_path));
  adapter.tensors = RK_TRY(parse_safetensors(adapter.file.bytes(), tensors_path)).tensors;
  if (adapter.tensors.empty()) return input_error("{}: it holds no tensors", tensors_path);
  Sha256 sum;
  sum.update(sha256_hex(text)).update(adapter.file.bytes());
  adapter.sha256 = sum.hex();
  return adapter;
}

}  // namespace ringkeep::checkpoint
