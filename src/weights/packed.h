// Matrices and vectors in device memory, in the backend's layout.
#pragma once

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

// Repacks matrices of one shape and type into a stack, expert by expert; `files` are those of the
// sources. As pack_matrix: source and packed form are never both in memory whole. Errors (input)
// name the tensor: see packed_spec(), another type than the first one's.
Result<OwnedStack> pack_stack(std::span<const quant::SourceTensor> sources,
                              std::span<const MappedFile> files, const RowOrder& order,
                              const PackOptions& options, const kernels::Ops& ops,
                              kernels::Device& device);

Result<OwnedVector> upload(const std::vector<float>& values, kernels::Device& device);

}  // namespace ringkeep::weights
