// A Hugging Face folder -> a folder of packed safetensors in mlx-lm's affine format.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "convert/plan.h"
#include "convert/shard.h"

namespace ringkeep::convert {

struct Request {
  std::string destination;
  bool force = false;    // replace a model that is there
  bool restart = false;  // do not go on with an unfinished conversion
  // How much each input channel counts; called once it is known that weights are to be written.
  // Empty: all alike.
  std::function<Result<Importance>()> measure;
  std::string measured_on;  // what it is measured on, for comparison with an unfinished conversion
  std::function<void(double bytes)> progress;  // of the source, done so far
  std::function<bool()> stop;                  // ends it, to be gone on with later
};

struct Outcome {
  std::vector<ModuleError> errors;  // [modules of the plan]
  std::vector<std::string> shards;  // SHA-256 of each
  size_t resumed = 0;               // shards that an earlier run had written
  std::vector<std::string> copied;  // further files
};

// Where DST stands: refused when it is there, unless `force` and it is an empty folder or holds a
// model; always when it holds, or is, the source. Errors: usage.
Status check_destination(const std::string& source, const std::string& destination, bool force);

// Writes shards, config.json and index, copies the source's other files, opens the result, and
// renames it to the destination; see Workspace. `checkpoint` is the one the plan was made of and
// `config` the text of its config.json.
Result<Outcome> run(const Plan& plan, const checkpoint::Checkpoint& checkpoint,
                    const std::string& config, const Request& request, ThreadPool& pool);

}  // namespace ringkeep::convert
