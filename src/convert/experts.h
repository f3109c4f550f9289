// Experts of a layer, put together as mlx-lm keeps them: one tensor [experts, rows, cols] for each
// of gate, up and down. mlx-lm stacks single experts itself, but in several families only their
// ".weight", not scales and biases; so they are written stacked.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "convert/modules.h"

namespace ringkeep::convert {

class ExpertStacks {
 public:
  // True when `tensor` belongs to experts: it is then part of a module in `modules`, which begins
  // where its first part was found. Errors (input) name the tensor.
  Result<bool> take(const quant::SourceTensor& tensor, std::vector<Module>& modules);
  // Checks that every stack is whole and even.
  Status finish(std::vector<Module>& modules) const;

 private:
  struct Stack {
    size_t module = 0;
    std::map<int64_t, quant::SourceTensor> experts;
  };
  Status add(const std::string& name, int64_t expert, const quant::SourceTensor& tensor,
             std::vector<Module>& modules);
  std::map<std::string, Stack> stacks_;  // by the name of the stacked tensor
};

}  // namespace ringkeep::convert
