#include "convert/shard.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>

#include "checkpoint/mlx_quant.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "convert/blocks.h"

namespace ringkeep::convert {
namespace {

using checkpoint::SafetensorsWriter;

constexpr int64_t kBlocksAtOnce = 64;  // held in memory, about 20 MiB

std::span<const float> importance_of(const ShardJob& job, const Module& module) {
  const auto found = job.importance.find(module.module_name());
  return found == job.importance.end() ? std::span<const float>() : found->second;
}

void append(std::vector<std::byte>& to, const std::vector<std::byte>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Lets go of the pages of the module's sources: they are not read again.
void drop(const ShardJob& job, const Module& module) {
  for (const auto& part : module.parts) {
    const MappedFile& file = job.sources[static_cast<size_t>(part.file)];
    file.drop(static_cast<size_t>(part.data - file.bytes().data()), part.bytes);
  }
}

// Codes go out block by block; scales and biases, a sixteenth of them, are held until they follow.
Status write_module(const ShardJob& job, const PlannedModule& planned, SafetensorsWriter& writer,
                    ModuleError& error, std::vector<std::string>& digests) {
  const std::vector<Block> blocks = blocks_of(planned);
  const auto importance = importance_of(job, planned.module);
  std::vector<std::byte> scales, biases;
  for (size_t begin = 0; begin < blocks.size(); begin += kBlocksAtOnce) {
    if (job.stop && job.stop()) return make_error(ErrorKind::interrupted, "interrupted");
    const size_t count = std::min<size_t>(kBlocksAtOnce, blocks.size() - begin);
    std::vector<std::optional<Result<Encoded>>> encoded(count);
    job.pool.parallel_for(static_cast<int64_t>(count), [&](int64_t i, int) {
      const auto at = static_cast<size_t>(i);
      encoded[at] = encode_block(planned, blocks[begin + at], job.plan.options.method, importance);
    });
    size_t read = 0;
    for (size_t i = 0; i < count; ++i) {
      const Encoded block = RK_TRY(std::move(*encoded[i]));
      RK_TRY(writer.write(block.data));
      append(scales, block.scales);
      append(biases, block.biases);
      digests.push_back(block.digest);
      error.squared += block.error.squared;
      error.weight += block.error.weight;
      error.output_squared += block.error.output_squared;
      error.output_weight += block.error.output_weight;
      const auto& part = planned.module.parts[blocks[begin + i].part];
      const int64_t rows = planned.setting.keep() ? 0 : part.rows();
      if (rows > 0)
        read +=
            part.bytes / static_cast<size_t>(rows) * static_cast<size_t>(blocks[begin + i].rows);
    }
    if (job.progress) job.progress(read);
  }
  if (planned.setting.keep() && job.progress) job.progress(planned.module.parts.front().bytes);
  RK_TRY(writer.write(scales));
  RK_TRY(writer.write(biases));
  drop(job, planned.module);
  return {};
}

// The settings of the shard's modules as the loader reads them from config.json.
Result<std::optional<checkpoint::MlxQuantization>> settings_of(const Plan& plan) {
  const std::string text = RK_TRY(config_text(plan, "{}"));
  return checkpoint::read_mlx_quantization(RK_TRY(checkpoint::parse_json(text, "config.json")));
}

// What the loader makes of the file against what was meant.
Status read_back(const ShardJob& job, const std::string& path,
                 const std::vector<std::vector<std::string>>& digests) {
  const MappedFile file = RK_TRY(MappedFile::open(path));
  checkpoint::SafetensorsFile parsed = RK_TRY(checkpoint::parse_safetensors(file.bytes(), path));
  std::map<std::string, quant::SourceTensor> tensors;
  for (quant::SourceTensor& tensor : parsed.tensors) {
    std::string name = tensor.name;
    tensors.emplace(std::move(name), std::move(tensor));
  }
  RK_TRY(checkpoint::fold_mlx_tensors(RK_TRY(settings_of(job.plan)), tensors));
  for (size_t m = job.shard.first; m < job.shard.last; ++m) {
    const PlannedModule& planned = job.plan.modules[m];
    const auto found = tensors.find(planned.module.name);
    if (found == tensors.end() || found->second.shape != planned.module.shape)
      return make_error(ErrorKind::runtime, "{}: {} was not read back with the shape [{}]", path,
                        planned.module.name, fmt::join(planned.module.shape, ", "));
    const std::vector<Block> blocks = blocks_of(planned);
    const auto& meant = digests[m - job.shard.first];
    std::vector<char> equal(blocks.size());
    job.pool.parallel_for(static_cast<int64_t>(blocks.size()), [&](int64_t i, int) {
      const auto at = static_cast<size_t>(i);
      equal[at] = digest_of(planned, blocks[at], found->second) == meant[at];
    });
    for (size_t i = 0; i < blocks.size(); ++i)
      if (!equal[i])
        return make_error(ErrorKind::runtime,
                          "{}: {} does not read back as it was written, from row {}: is the disk "
                          "sound?",
                          path, planned.module.name, blocks[i].at);
    file.drop(0, file.bytes().size());
  }
  return {};
}

}  // namespace

Result<WrittenShard> write_shard(const ShardJob& job) {
  std::vector<checkpoint::SafetensorsEntry> entries;
  for (size_t m = job.shard.first; m < job.shard.last; ++m)
    for (const auto& entry : job.plan.modules[m].entries) entries.push_back(entry);
  // Under a name of its own until it has been read back.
  const std::string unchecked = job.path + ".unchecked";
  auto writer = RK_TRY(SafetensorsWriter::create(unchecked, {{"format", "mlx"}}, entries));
  WrittenShard written;
  std::vector<std::vector<std::string>> digests;
  for (size_t m = job.shard.first; m < job.shard.last; ++m) {
    written.errors.emplace_back();
    digests.emplace_back();
    RK_TRY(write_module(job, job.plan.modules[m], writer, written.errors.back(), digests.back()));
  }
  RK_TRY(writer.finish());
  written.sha256 = writer.sha256();
  RK_TRY(read_back(job, unchecked, digests));
  std::error_code error;
  std::filesystem::rename(unchecked, job.path, error);
  if (error)
    return make_error(ErrorKind::runtime, "{}: cannot rename: {}", job.path, error.message());
  return written;
}

}  // namespace ringkeep::convert
