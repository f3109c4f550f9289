// A GGUF model on disk: one file, or a split set "NAME-00001-of-0000N.gguf" given by its first
// part.
#pragma once

#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "checkpoint/gguf_model.h"

namespace ringkeep::checkpoint {

struct GgufSet {
  std::vector<MappedFile> files;  // one for each part of the model
  GgufModel model;                // points into them
};

// `all_parts` false: later parts that are missing are left out (the first one has all metadata).
// Errors (input), each with its own message: a later part given, a part missing, parts that
// disagree on split.count, a part in the wrong place, tensors missing or doubled.
Result<GgufSet> open_gguf(const std::string& path, bool all_parts);

}  // namespace ringkeep::checkpoint
