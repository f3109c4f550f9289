// Matrices and vectors in device memory, in the backend's layout.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "kernels/api/ops.h"
#include "quant/source_tensor.h"

namespace ringkeep::weights {

// A matrix with the buffer that holds it; empty when rows == 0.
struct OwnedTensor {
  kernels::PackedTensor tensor;
  kernels::DeviceBuffer buffer;
  explicit operator bool() const { return tensor.rows > 0; }
};

// A stack of matrices with the buffer that holds it; empty when count == 0.
struct OwnedStack {
  kernels::PackedStack stack;
  kernels::DeviceBuffer buffer;
};

// A float32 vector in device memory (norm weights, biases), or empty.
struct OwnedVector {
  kernels::DeviceBuffer buffer;
  int64_t size = 0;
  const float* data() const { return size > 0 ? buffer.as<float>() : nullptr; }
};

struct PackOptions {
  int weight_bits = 0;  // quantize dense matrices while loading; 0: keep them dense
  int weight_group = 64;
  // Packed experts are held in so many bytes at most; the others stay in the file. See ExpertCache.
  size_t expert_memory = SIZE_MAX;
};

// Source row of each packed row (there may be fewer), or empty for the identity.
using RowOrder = std::vector<int64_t>;

// The packed format that the matrix will have. Errors (input) name the tensor: no weight type,
// columns that the group does not divide.
Result<quant::WeightSpec> packed_spec(const quant::SourceTensor& source,
                                      const PackOptions& options);

// Repacks a matrix, in parallel over blocks of rows. The pages of `file` that were read are let go
// of on the way, so that source and packed form are never both in memory whole.
Result<OwnedTensor> pack_matrix(const quant::SourceTensor& source, const MappedFile& file,
                                const RowOrder& order, const PackOptions& options,
                                const kernels::Ops& ops, kernels::Device& device);

// What the matrices of a stack have in common. Errors: as of pack_stack().
struct StackShape {
  quant::WeightSpec spec;
  int64_t rows = 0, cols = 0;
};
Result<StackShape> stack_shape(std::span<const quant::SourceTensor> sources, const RowOrder& order,
                               const PackOptions& options);

// Packs rows [row0, row0 + pack_step()), or what is left of `rows`, of one matrix into its memory.
int64_t pack_step(const kernels::Ops& ops);
void pack_part(const quant::SourceTensor& source, const RowOrder& order,
               const quant::WeightSpec& spec, int64_t rows, int64_t row0, const kernels::Ops& ops,
               std::byte* data);

// Repacks matrices of one shape and type into a stack, expert by expert; `files` are those of the
// sources. As pack_matrix: source and packed form are never both in memory whole. Errors (input)
// name the tensor: see packed_spec(), another type than the first one's.
Result<OwnedStack> pack_stack(std::span<const quant::SourceTensor> sources,
                              std::span<const MappedFile> files, const RowOrder& order,
                              const PackOptions& options, const kernels::Ops& ops,
                              kernels::Device& device);

Result<OwnedVector> upload(const std::vector<float>& values, kernels::Device& device);

}  // namespace ringkeep::weights
