// How much of a model's experts is held in memory (--expert-memory).
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/result.h"
#include "weights/decoder_weights.h"

namespace ringkeep::weights {

// PackOptions::expert_memory. `asked`: SIZE_MAX for all, or bytes; nothing: all where they and
// `others` (whatever else is allocated, the weights apart) take nine tenths of `available` bytes
// (if known) at most, and otherwise what these leave, one token's experts of a layer at least.
// SIZE_MAX also where the bytes are enough for all. Errors (usage): fewer bytes than an expert
// takes, or bytes for a model without experts.
Result<size_t> expert_memory(const PackedBytes& weights, int experts_used,
                             std::optional<size_t> asked, size_t others,
                             std::optional<size_t> available);

// What the experts take in memory then, at most.
size_t held_expert_bytes(const PackedBytes& weights, size_t expert_memory);

// Bytes of the checkpoint's tensors that stay in their files and are read from there when a step
// needs them.
size_t mapped_bytes(const checkpoint::Checkpoint& checkpoint, const PackedBytes& weights,
                    size_t expert_memory);
// Whether the tensor is one of them.
bool is_mapped(const std::string& tensor, const PackedBytes& weights, size_t expert_memory);

}  // namespace ringkeep::weights
