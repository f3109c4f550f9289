// The matrices of a layer's experts, in whichever way a checkpoint stores them:
//   one stack [experts, rows, cols] for each of gate, up and down (GGUF, MLX);
//   gate and up in one stack, one after the other (Gemma 4, Llama 4) or row by row in turn
//   (GPT-OSS); dense stacks of GPT-OSS and Llama 4 are moreover stored as [experts, cols, rows]; a
//   tensor for each expert (Qwen).
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "weights/packed.h"

namespace ringkeep::weights {

struct ExpertMatrices {
  std::vector<quant::SourceTensor> experts;  // [experts], views into the files
  RowOrder order;                            // of each, see pack_stack()
  std::vector<float> bias;                   // [experts, rows], or empty
};

struct ExpertSources {
  ExpertMatrices gate, up;              // [expert_hidden, hidden]
  ExpertMatrices down;                  // [hidden, expert_hidden]
  std::vector<std::string> names;       // of the checkpoint's tensors that the matrices are
  std::vector<std::string> bias_names;  // and that the biases are
};

// Nothing is copied but biases. Errors (input): a tensor is missing or has another shape than the
// configuration asks for.
Result<ExpertSources> find_experts(const checkpoint::Checkpoint& checkpoint,
                                   const std::string& prefix, int layer);

}  // namespace ringkeep::weights
