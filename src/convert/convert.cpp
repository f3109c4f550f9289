#include "convert/convert.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/sha256.h"
#include "convert/workspace.h"

namespace ringkeep::convert {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigits = 16;  // of a fingerprint that people see

// Weights in any format, and what describes their files.
bool is_weights(const fs::path& path) {
  static constexpr const char* kEnds[] = {
      ".safetensors", ".bin",  ".pt",   ".pth",        ".gguf",   ".h5",      ".npz",
      ".msgpack",     ".onnx", ".ckpt", ".index.json", ".tflite", ".partial", ".incomplete"};
  const std::string name = path.filename().string();
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](const char* end) { return name.ends_with(end); });
}

// Size, time and header of each file: another file under the same name is noticed.
Status add_sources(const checkpoint::Checkpoint& checkpoint, Asked& asked) {
  for (const MappedFile& file : checkpoint.table.files) {
    struct stat info {};
    if (::stat(file.path().c_str(), &info) != 0)
      return input_error("{}: cannot read: {}", file.path(), std::strerror(errno));
    uint64_t length = 0;
    std::memcpy(&length, file.bytes().data(), sizeof length);  // checked when it was opened
    const std::string header = sha256_hex(file.bytes().first(sizeof length + length));
    asked.emplace_back(
        fs::path(file.path()).filename().string(),
        fmt::format("{} bytes, time {}.{:09}, header {}", info.st_size,
                    static_cast<int64_t>(info.st_mtim.tv_sec),
                    static_cast<int64_t>(info.st_mtim.tv_nsec), header.substr(0, kDigits)));
  }
  return {};
}

Result<Asked> asked_for(const Plan& plan, const checkpoint::Checkpoint& checkpoint,
                        const std::string& config, const Request& request) {
  const Options& options = plan.options;
  Asked asked = {
      {"--bits", std::to_string(options.asked.bits)},
      {"--group", std::to_string(options.asked.group)},
      {"--dtype", plan.dtype ? dtype_text(*plan.dtype) : "as stored"},
      {"--rounding", options.method == quant::AffineMethod::search ? "search" : "min-max"},
      {"--override",
       options.overrides.empty() ? "none" : fmt::format("{}", fmt::join(options.overrides, " "))},
      {"--shard-size", std::to_string(options.shard_bytes)},
      {"--calibration", request.measured_on.empty() ? "none" : request.measured_on},
      {"config.json", sha256_hex(config).substr(0, kDigits)}};
  RK_TRY(add_sources(checkpoint, asked));
  return asked;
}

Status write_text(const std::string& path, const std::string& text) {
  auto file = RK_TRY(AtomicFile::create(path));
  RK_TRY(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

// Tokenizer, templates, generation settings, license: every further file of the folder.
Result<std::vector<std::string>> copy_others(const std::string& source, const std::string& to) {
  std::vector<std::string> copied;
  std::error_code error;
  for (fs::directory_iterator entry(source, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path path = entry->path();
    const std::string name = path.filename().string();
    std::error_code status;
    if (fs::is_directory(path, status) || is_weights(path) || name == "config.json") continue;
    if (name.starts_with(".")) continue;  // of version control
    const MappedFile file = RK_TRY(MappedFile::open(path.string()));
    auto copy = RK_TRY(AtomicFile::create(to + "/" + name));
    RK_TRY(copy.write(file.bytes()));
    RK_TRY(copy.commit());
    copied.push_back(name);
  }
  if (error) return input_error("{}: cannot read the folder: {}", source, error.message());
  std::sort(copied.begin(), copied.end());
  return copied;
}

// Bytes that are free where the folder lies, less than are needed: an error before anything is
// written. Unknown: none.
Status check_space(const std::string& folder, size_t needed) {
  std::error_code error;
  const auto space = fs::space(folder, error);
  if (!error && space.available < needed)
    return make_error(ErrorKind::runtime, "{}: {} bytes are needed, but {} are free", folder,
                      needed, space.available);
  return {};
}

// The whole folder through the loader, against the plan.
Status check_result(const Plan& plan, const std::string& folder) {
  const checkpoint::Checkpoint written = RK_TRY(checkpoint::open(folder));
  if (written.table.tensors.size() != plan.modules.size())
    return make_error(ErrorKind::runtime, "{}: {} tensors were read back, expected {}", folder,
                      written.table.tensors.size(), plan.modules.size());
  for (const PlannedModule& planned : plan.modules) {
    const quant::SourceTensor* tensor = written.table.find(planned.module.name);
    if (tensor == nullptr || tensor->shape != planned.module.shape ||
        tensor->bits != planned.setting.bits || tensor->group != planned.setting.group)
      return make_error(ErrorKind::runtime, "{}: {} was not read back as it was written", folder,
                        planned.module.name);
  }
  return {};
}

// One finite size for each column of the modules that it names, all of which the plan has.
Status check_importance(const Plan& plan, const Importance& importance) {
  size_t found = 0;
  for (const PlannedModule& planned : plan.modules) {
    const auto entry = importance.find(planned.module.module_name());
    if (entry == importance.end()) continue;
    ++found;
    const std::vector<float>& sizes = entry->second;
    if (static_cast<int64_t>(sizes.size()) != planned.module.shape.back() ||
        std::any_of(sizes.begin(), sizes.end(), [](float s) { return !(s >= 0) || std::isinf(s); }))
      return make_error(ErrorKind::runtime, "{}: its inputs were not measured as {} finite numbers",
                        entry->first, planned.module.shape.back());
  }
  RK_CHECK(found == importance.size(), "{} of {} measured modules", found, importance.size());
  return {};
}

}  // namespace

Status check_destination(const std::string& source, const std::string& destination, bool force) {
  std::error_code error;
  const fs::path from = fs::weakly_canonical(source, error);
  const fs::path to = fs::weakly_canonical(destination, error);
  const auto [at, rest] = std::mismatch(to.begin(), to.end(), from.begin(), from.end());
  if (at == to.end())
    return make_error(ErrorKind::usage, "{}: it {} the source {}", destination,
                      rest == from.end() ? "is" : "holds", source);
  if (!fs::exists(fs::symlink_status(destination, error))) return {};
  if (!force)
    return make_error(ErrorKind::usage, "{}: is there already; --force replaces it", destination);
  const bool folder = fs::is_directory(fs::symlink_status(destination, error));
  if (!folder ||
      (!fs::is_empty(destination, error) && !fs::exists(destination + "/config.json", error)))
    return make_error(ErrorKind::usage,
                      "{}: --force replaces empty folders and models (config.json), not this",
                      destination);
  return {};
}

Result<Outcome> run(const Plan& plan, const checkpoint::Checkpoint& checkpoint,
                    const std::string& config, const Request& request, ThreadPool& pool) {
  const std::string converted = RK_TRY(config_text(plan, config));
  const Asked asked = RK_TRY(asked_for(plan, checkpoint, config, request));
  Workspace space = RK_TRY(Workspace::open(request.destination, asked, request.restart));
  Outcome outcome;
  std::vector<const WrittenShard*> complete;
  size_t needed = 0;
  for (const Shard& shard : plan.shards) {
    complete.push_back(space.complete(shard));
    if (complete.back() == nullptr) needed += shard.bytes;
  }
  RK_TRY(check_space(space.model(), needed));

  Importance importance;
  if (request.measure && needed > 0) {
    importance = RK_TRY(request.measure());
    RK_TRY(check_importance(plan, importance));
  }

  double done = 0.0;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i];
    WrittenShard written;
    if (complete[i] != nullptr) {
      written = *complete[i];
      ++outcome.resumed;
      for (size_t m = shard.first; m < shard.last; ++m)
        for (const auto& part : plan.modules[m].module.parts) done += double(part.bytes);
    } else {
      const auto progress = [&](size_t bytes) {
        done += double(bytes);
        if (request.progress) request.progress(done);
      };
      written = RK_TRY(write_shard({plan, shard, checkpoint.table.files, importance,
                                    space.path(shard.file), pool, progress, request.stop}));
      RK_TRY(space.record(shard, written));
    }
    outcome.shards.push_back(written.sha256);
    outcome.errors.insert(outcome.errors.end(), written.errors.begin(), written.errors.end());
  }

  outcome.copied = RK_TRY(copy_others(checkpoint.path, space.model()));
  RK_TRY(write_text(space.path("model.safetensors.index.json"), index_text(plan)));
  RK_TRY(write_text(space.path("config.json"), converted));
  RK_TRY(check_result(plan, space.model()));
  RK_TRY(space.finish(request.force));
  return outcome;
}

}  // namespace ringkeep::convert
