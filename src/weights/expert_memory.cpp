#include "weights/expert_memory.h"

#include <algorithm>

namespace ringkeep::weights {

Result<size_t> expert_memory(const PackedBytes& weights, int experts_used,
                             std::optional<size_t> asked, size_t others,
                             std::optional<size_t> available) {
  if (weights.experts == 0) {
    if (asked.value_or(SIZE_MAX) == SIZE_MAX) return SIZE_MAX;
    return make_error(ErrorKind::usage, "--expert-memory: the model has no experts");
  }
  size_t bytes = asked.value_or(SIZE_MAX);
  if (!asked && available) {
    const size_t room = *available - *available / 10;
    const size_t rest = weights.all - weights.experts + others;
    const size_t least = static_cast<size_t>(experts_used) * weights.largest_expert;
    bytes = std::max(room - std::min(room, rest), least);
  }
  if (bytes >= weights.experts) return SIZE_MAX;
  if (bytes < weights.largest_expert)
    return make_error(
        ErrorKind::usage,
        "--expert-memory: expected at least {} bytes, which an expert takes, found {}",
        weights.largest_expert, bytes);
  return bytes;
}

size_t held_expert_bytes(const PackedBytes& weights, size_t expert_memory) {
  if (expert_memory == SIZE_MAX || weights.largest_expert == 0) return weights.experts;
  return expert_memory / weights.largest_expert * weights.largest_expert;
}

bool is_mapped(const std::string& tensor, const PackedBytes& weights, size_t expert_memory) {
  return weights.mapped_tensors.contains(tensor) ||
         (expert_memory != SIZE_MAX && weights.expert_tensors.contains(tensor));
}

size_t mapped_bytes(const checkpoint::Checkpoint& checkpoint, const PackedBytes& weights,
                    size_t expert_memory) {
  size_t bytes = 0;
  for (const auto& [name, tensor] : checkpoint.table.tensors)
    if (is_mapped(name, weights, expert_memory))
      for (const auto& piece : quant::pieces_of(tensor)) bytes += piece.size();
  return bytes;
}

}  // namespace ringkeep::weights
