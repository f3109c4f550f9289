#include "checkpoint/hf_folder.h"

#include <filesystem>
#include <map>
#include <set>

#include "checkpoint/hf_tokenizer.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/mlx_quant.h"
#include "checkpoint/safetensors.h"

namespace ringkeep::checkpoint {

namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestConfig = size_t{16} << 20;
constexpr size_t kLargestIndex = size_t{64} << 20;
constexpr const char* kIndexName = "model.safetensors.index.json";

bool present(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Tensor -> shard, or only one shard when there is no index.
struct ShardMap {
  std::vector<std::string> files;
  std::map<std::string, std::string> weights;  // empty without an index
};

Result<ShardMap> read_index(const std::string& path) {
  const std::string text = RK_TRY(read_text_file(path, kLargestIndex));
  const Json json = RK_TRY(parse_json(text, path));
  const auto map = RK_TRY(JsonFields(json, path).object("weight_map"));
  if (!map || map->json().empty())
    return input_error("{}: expected weight_map, an object from tensors to files", path);
  ShardMap shards;
  std::set<std::string> files;
  for (const auto& [tensor, file] : map->json().items()) {
    if (!file.is_string()) return map->wrong(tensor.c_str(), "a file name");
    const std::string name = file.get<std::string>();
    if (name.empty() || name.find('/') != std::string::npos || name[0] == '.')
      return map->wrong(tensor.c_str(), "a file name without folders");
    shards.weights[tensor] = name;
    files.insert(name);
  }
  shards.files.assign(files.begin(), files.end());
  return shards;
}

Result<ShardMap> find_shards(const std::string& folder) {
  const fs::path index = fs::path(folder) / kIndexName;
  if (present(index)) return read_index(index.string());
  if (present(fs::path(folder) / "model.safetensors")) return ShardMap{{"model.safetensors"}, {}};
  std::set<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().extension() == ".safetensors")
      found.insert(entry->path().filename().string());
  if (found.empty())
    return input_error("{}: no safetensors weights (expected model.safetensors or {})", folder,
                       kIndexName);
  if (found.size() > 1)
    return input_error("{}: {} safetensors files, but no {}", folder, found.size(), kIndexName);
  return ShardMap{{*found.begin()}, {}};
}

Status read_shards(const std::string& folder, TensorTable& table) {
  const ShardMap shards = RK_TRY(find_shards(folder));
  for (const std::string& name : shards.files) {
    const std::string path = folder + "/" + name;
    if (!present(path))
      return input_error("{}: the index names this file, but it is missing", path);
    MappedFile file = RK_TRY(MappedFile::open(path));
    SafetensorsFile parsed = RK_TRY(parse_safetensors(file.bytes(), path));
    for (quant::SourceTensor& tensor : parsed.tensors) {
      const auto entry = shards.weights.find(tensor.name);
      if (!shards.weights.empty() && (entry == shards.weights.end() || entry->second != name))
        continue;  // the index is what counts
      tensor.file = static_cast<int>(table.files.size());
      std::string key = tensor.name;
      table.tensors.emplace(std::move(key), std::move(tensor));
    }
    table.files.push_back(std::move(file));
  }
  for (const auto& [tensor, name] : shards.weights)
    if (table.tensors.find(tensor) == table.tensors.end())
      return input_error("{}/{}: the index says that {} is in this file, but it is not", folder,
                         name, tensor);
  return {};
}

// Top-level settings for `inspect`, in the file's order.
void describe_config(const std::string& text, Checkpoint& checkpoint) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.items()) {
    constexpr size_t kLongest = 200;
    std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
    if (shown.size() > kLongest && (value.is_array() || value.is_object()))
      shown = fmt::format("{} of {} entries", value.is_array() ? "array" : "object", value.size());
    checkpoint.metadata.emplace_back(key, std::move(shown));
  }
}

Error in_folder(const std::string& folder, Error error) {
  error.message = folder + ": " + error.message;
  return error;
}

}  // namespace

Result<Checkpoint> open_hf_folder(const std::string& folder, const OpenOptions& options) {
  const std::string config_path = folder + "/config.json";
  const std::string text = RK_TRY(read_text_file(config_path, kLargestConfig));
  const Json json = RK_TRY(parse_json(text, config_path));
  Checkpoint checkpoint;
  checkpoint.format = Format::safetensors;
  checkpoint.path = folder;
  auto config = parse_hf_config(text);
  if (!config.ok()) return in_folder(folder, std::move(config).error());
  checkpoint.config = std::move(config).value();
  if (checkpoint.config.name.empty())
    checkpoint.config.name = fs::path(folder).lexically_normal().filename().string();
  describe_config(text, checkpoint);
  if (options.tokenizer) checkpoint.tokenizer = RK_TRY(read_hf_tokenizer(folder, json));
  if (!options.weights) return checkpoint;

  auto quantization = read_mlx_quantization(json);
  if (!quantization.ok()) return in_folder(folder, std::move(quantization).error());
  RK_TRY(read_shards(folder, checkpoint.table));
  auto folded = fold_mlx_tensors(quantization.value(), checkpoint.table.tensors);
  if (folded.ok()) folded = fold_mxfp4_tensors(checkpoint.table.tensors);
  if (!folded.ok()) return in_folder(folder, std::move(folded).error());
  return checkpoint;
}

}  // namespace ringkeep::checkpoint
