// Writes one shard, and reads it back.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "convert/plan.h"

namespace ringkeep::convert {

// Mean squares of the inputs of matrices, [cols], by module name.
using Importance = std::map<std::string, std::vector<float>>;

// What quantizing made of a module's weights.
struct ModuleError {
  double squared = 0.0;  // sum of (w - written)^2
  double weight = 0.0;   // sum of w^2
  // The same, each weight times its importance; 0 without one.
  double output_squared = 0.0;
  double output_weight = 0.0;
};

struct WrittenShard {
  std::string sha256;               // see SafetensorsWriter
  std::vector<ModuleError> errors;  // [modules of the shard]
};

struct ShardJob {
  const Plan& plan;
  const Shard& shard;
  const std::vector<MappedFile>& sources;  // by SourceTensor::file
  const Importance& importance;
  std::string path;  // to write
  ThreadPool& pool;
  std::function<void(size_t source_bytes)> progress;  // read since the last call
  std::function<bool()> stop;                         // asked between blocks of rows
};

// The file appears under its name once it is whole and has been read back through the loader of MLX
// checkpoints, with every code, scale, bias and float as it was meant. Errors: input (a weight that
// is not finite, or beyond the type, by tensor and place), runtime (disk), interrupted.
Result<WrittenShard> write_shard(const ShardJob& job);

}  // namespace ringkeep::convert
