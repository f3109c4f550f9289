// Matrices that some checkpoints store as one (Phi-3: q, k and v; gate and up. GGUF: those of
// AltUp's streams), cut into the parts that the forward pass names.
#pragma once

#include <map>
#include <set>
#include <string>

#include "checkpoint/checkpoint.h"

namespace ringkeep::weights {

struct FusedParts {
  std::map<std::string, quant::SourceTensor> tensors;  // rows of the fused ones, by the part's name
  std::set<std::string> wholes;                        // names of the tensors that were cut
};

// Views into the files of the checkpoint: nothing is copied. Errors (input) name the tensor, the
// rows that the configuration asks for and those found.
Result<FusedParts> split_fused(const checkpoint::Checkpoint& checkpoint, const std::string& prefix);

}  // namespace ringkeep::weights
