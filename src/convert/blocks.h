// A module's rows block by block: from its source, and from the file that was written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "convert/plan.h"
#include "convert/shard.h"

namespace ringkeep::convert {

// Rows [row0, row0 + rows) of one part of a module, or elements [row0, row0 + rows) of what is kept
// (rows all the same where the part is stored transposed).
struct Block {
  size_t part = 0;
  int64_t row0 = 0;  // in the part
  int64_t rows = 0;
  int64_t at = 0;  // row0 in the whole module
};

// All blocks of a module in order: rows of a matrix that is quantized, elements of floats that are
// kept, bytes of what is carried as it is; none is larger than about a quarter of a MiB.
std::vector<Block> blocks_of(const PlannedModule& planned);

// A block as it goes to the file.
struct Encoded {
  std::vector<std::byte> data;    // codes, floats or bytes
  std::vector<std::byte> scales;  // quantized only
  std::vector<std::byte> biases;
  std::string digest;  // of what it means, see digest_of
  ModuleError error;
};

// Errors (input) name the tensor, row and column: NaN, infinity, beyond the type.
Result<Encoded> encode_block(const PlannedModule& planned, const Block& block,
                             quant::AffineMethod method, std::span<const float> importance);

// SHA-256 of what a reader makes of the same block of the tensor that was written: codes, scales
// and biases, or floats.
std::string digest_of(const PlannedModule& planned, const Block& block,
                      const quant::SourceTensor& written);

}  // namespace ringkeep::convert
