// A tensor as a checkpoint file stores it, before repacking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "quant/weight_spec.h"

namespace ringkeep::quant {

enum class SourceType : uint8_t {
  f32,
  f16,
  bf16,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,  // GGUF, blocks of 32
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,        // GGUF, super-blocks of 256
  mxfp4,       // GGUF, blocks of 32: an E8M0 scale and E2M1 codes
  mlx_affine,  // codes in u32 words plus scales and biases
  mlx_mxfp4,   // E2M1 codes, and E8M0 scales apart (also Hugging Face's blocks and scales)
  other,       // known to the file format, not usable as a weight
};
const char* source_type_name(SourceType type);  // "Q5_0", "BF16", "MLX affine", ...

struct SourceTensor {
  std::string name;
  SourceType type = SourceType::f32;
  std::string type_name;            // as the file calls it
  std::vector<int64_t> shape;       // outermost first; logical (an MLX tensor: unpacked columns)
  const std::byte* data = nullptr;  // in a mapped file
  size_t bytes = 0;
  int file = 0;  // index into TensorTable::files
  // Dense only: stored as [cols, rows], or the first rows() of [cols, stored_rows] where that is
  // not 0.
  bool transposed = false;
  int64_t stored_rows = 0;
  // mlx types only: [rows, cols / group] each; mlx_mxfp4 has no biases, bits 4, group 32
  int bits = 0;
  int group = 0;
  const std::byte* scales = nullptr;
  const std::byte* biases = nullptr;
  SourceType scale_type = SourceType::f16;  // f16, bf16 or f32

  int64_t rows() const { return shape.size() < 2 ? 1 : shape[0]; }
  int64_t cols() const { return shape.empty() ? 0 : shape.back(); }
};

// The packed format that holds `tensor` without loss. Errors (input) name the tensor: a type that
// is no weight, columns that the block does not divide.
Result<WeightSpec> spec_of(const SourceTensor& tensor);

// Decodes rows [row0, row0 + count) of a 2-D tensor to the logical form of spec_of(tensor).
// Sizes were checked when the table was made; this cannot fail.
WeightRows decode_rows(const SourceTensor& tensor, int64_t row0, int64_t count);

// Rows [row0, row0 + count) as a tensor of its own, over the same memory. A vector's elements count
// as rows.
SourceTensor rows_of(const SourceTensor& tensor, int64_t row0, int64_t count);

// Matrix `index` of a stack [count, rows, cols], over the same memory.
SourceTensor matrix_of(const SourceTensor& stack, int64_t index);

// The pieces of memory that the tensor lies in: its codes or values, and scales and biases where
// these are apart.
std::vector<std::span<const std::byte>> pieces_of(const SourceTensor& tensor);

// Bytes of one row of this type with `cols` columns, or 0 when the block does not divide cols.
size_t source_row_bytes(SourceType type, int64_t cols);

// The whole of a small tensor (norm weights, biases) as floats, of a type that spec_of accepts.
std::vector<float> to_floats(const SourceTensor& tensor);

}  // namespace ringkeep::quant
