#include "quant/source_tensor.h"

#include <cstring>

#include "base/check.h"
#include "base/dtype.h"
#include "quant/gguf_blocks.h"

namespace ringkeep::quant {
namespace {

size_t dense_size(SourceType type) {  // bytes of an element, 0 for quantized types
  switch (type) {
    case SourceType::f32: return 4;
    case SourceType::f16:
    case SourceType::bf16: return 2;
    default: return 0;
  }
}

void dense_to_float(SourceType type, const std::byte* in, int64_t n, float* out) {
  if (type == SourceType::f32) {
    std::memcpy(out, in, size_t(n) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, in + 2 * i, sizeof bits);
    out[i] = type == SourceType::f16 ? f16_to_float(bits) : bf16_to_float(bits);
  }
}

ScaleKind scale_kind(SourceType type) {
  return type == SourceType::f32    ? ScaleKind::f32
         : type == SourceType::bf16 ? ScaleKind::bf16
                                    : ScaleKind::f16;
}

bool mlx_bits(int bits) {
  return bits == 2 || bits == 3 || bits == 4 || bits == 5 || bits == 6 || bits == 8;
}
bool mlx_group(int group) { return group == 32 || group == 64 || group == 128; }

bool is_mlx(SourceType type) {
  return type == SourceType::mlx_affine || type == SourceType::mlx_mxfp4;
}
size_t scale_size(const SourceTensor& tensor) {  // bytes of a scale of an MLX type
  return tensor.type == SourceType::mlx_mxfp4 ? 1 : dense_size(tensor.scale_type);
}

// Codes of `bits` bits follow each other from the lowest bit of the first byte upwards; on little
// endian files the u32 words that MLX declares make no difference. [rows, cols] either side.
void decode_mlx(const SourceTensor& tensor, int64_t row0, WeightRows& out) {
  const int64_t groups = out.cols / tensor.group;
  const size_t scale_bytes = scale_size(tensor);
  out.scales.resize(size_t(out.rows * groups));
  const std::byte* scales = tensor.scales + size_t(row0 * groups) * scale_bytes;
  if (tensor.type == SourceType::mlx_mxfp4) {
    decode_e8m0_half(scales, out.rows * groups, out.scales.data());
  } else {
    out.biases.resize(size_t(out.rows * groups));
    dense_to_float(tensor.scale_type, scales, out.rows * groups, out.scales.data());
    dense_to_float(tensor.scale_type, tensor.biases + size_t(row0 * groups) * scale_bytes,
                   out.rows * groups, out.biases.data());
  }

  const int64_t codes = out.rows * out.cols;
  const auto* in = reinterpret_cast<const uint8_t*>(tensor.data) +
                   size_t(row0 * out.cols) * size_t(tensor.bits) / 8;
  out.codes.resize(size_t(codes));
  const uint32_t mask = (1u << tensor.bits) - 1;
  uint32_t window = 0;  // bits read and not yet used
  int have = 0;
  for (int64_t i = 0; i < codes; ++i) {
    if (have < tensor.bits) {
      window |= uint32_t(*in++) << have;
      have += 8;
    }
    out.codes[i] = uint8_t(window & mask);
    window >>= tensor.bits;
    have -= tensor.bits;
  }
}

// The scales (and biases) of an MLX tensor from `rows` rows further on.
void move_scales(int64_t rows, SourceTensor& tensor) {
  if (!is_mlx(tensor.type)) return;
  const size_t bytes = size_t(rows * (tensor.cols() / tensor.group)) * scale_size(tensor);
  tensor.scales += bytes;
  if (tensor.biases != nullptr) tensor.biases += bytes;
}

// Rows of a dense matrix that is stored as [cols, rows].
void decode_transposed(const SourceTensor& tensor, int64_t row0, WeightRows& out) {
  const size_t size = dense_size(tensor.type);
  const int64_t stride = tensor.stored_rows > 0 ? tensor.stored_rows : tensor.rows();
  out.dense.resize(size_t(out.rows * out.cols));
  std::vector<float> column(size_t(out.rows), 0.0f);
  for (int64_t c = 0; c < out.cols; ++c) {
    dense_to_float(tensor.type, tensor.data + size_t(c * stride + row0) * size, out.rows,
                   column.data());
    for (int64_t r = 0; r < out.rows; ++r) out.dense[size_t(r * out.cols + c)] = column[size_t(r)];
  }
}

}  // namespace

const char* source_type_name(SourceType type) {
  switch (type) {
    case SourceType::f32: return "F32";
    case SourceType::f16: return "F16";
    case SourceType::bf16: return "BF16";
    case SourceType::q4_0: return "Q4_0";
    case SourceType::q4_1: return "Q4_1";
    case SourceType::q5_0: return "Q5_0";
    case SourceType::q5_1: return "Q5_1";
    case SourceType::q8_0: return "Q8_0";
    case SourceType::q2_k: return "Q2_K";
    case SourceType::q3_k: return "Q3_K";
    case SourceType::q4_k: return "Q4_K";
    case SourceType::q5_k: return "Q5_K";
    case SourceType::q6_k: return "Q6_K";
    case SourceType::mxfp4: return "MXFP4";
    case SourceType::mlx_affine: return "MLX affine";
    case SourceType::mlx_mxfp4: return "MLX MXFP4";
    case SourceType::other: return "unsupported";
  }
  return "?";
}

size_t source_row_bytes(SourceType type, int64_t cols) {
  if (cols < 0) return 0;
  if (const size_t size = dense_size(type)) return size * size_t(cols);
  const BlockFormat format = block_format(type);
  if (format.cols == 0 || cols % format.cols != 0) return 0;
  return size_t(cols / format.cols) * size_t(format.bytes);
}

Result<WeightSpec> spec_of(const SourceTensor& tensor) {
  const int64_t cols = tensor.cols();
  if (tensor.shape.size() > 2 || cols <= 0)
    return input_error(
        "tensor {}: expected a matrix with columns, found {} dimensions and {} columns",
        tensor.name, tensor.shape.size(), cols);
  switch (tensor.type) {
    case SourceType::f32: return WeightSpec{.kind = WeightKind::dense_f32};
    case SourceType::f16: return WeightSpec{.kind = WeightKind::dense_f16};
    case SourceType::bf16: return WeightSpec{.kind = WeightKind::dense_bf16};
    case SourceType::mlx_affine: {
      if (!mlx_bits(tensor.bits) || !mlx_group(tensor.group))
        return input_error(
            "tensor {}: expected 2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128, found {} bits "
            "in "
            "groups of {}",
            tensor.name, tensor.bits, tensor.group);
      if (cols % tensor.group != 0)
        return input_error("tensor {}: expected columns in groups of {}, found {} columns",
                           tensor.name, tensor.group, cols);
      if (tensor.scales == nullptr || tensor.biases == nullptr ||
          dense_size(tensor.scale_type) == 0)
        return input_error("tensor {}: expected scales and biases as F16, BF16 or F32",
                           tensor.name);
      return WeightSpec{WeightKind::affine, tensor.bits, tensor.group, 0,
                        scale_kind(tensor.scale_type)};
    }
    case SourceType::mlx_mxfp4: {
      if (tensor.bits != 4 || tensor.group != 32 || cols % 32 != 0 || tensor.scales == nullptr)
        return input_error(
            "tensor {}: expected MXFP4 of 4 bits in groups of 32 with scales, found {} bits in "
            "groups of {} for {} columns",
            tensor.name, tensor.bits, tensor.group, cols);
      return mxfp4_spec();
    }
    default: break;
  }
  const BlockFormat format = block_format(tensor.type);
  if (format.cols == 0)
    return input_error("tensor {}: type {} cannot be used as a weight", tensor.name,
                       tensor.type_name.empty() ? source_type_name(tensor.type) : tensor.type_name);
  if (cols % format.cols != 0)
    return input_error("tensor {}: {} needs columns in blocks of {}, found {} columns", tensor.name,
                       source_type_name(tensor.type), format.cols, cols);
  return format.spec;
}

WeightRows decode_rows(const SourceTensor& tensor, int64_t row0, int64_t count) {
  auto spec = spec_of(tensor);
  RK_CHECK(spec.ok(), "{}", spec.error().message);
  RK_CHECK(row0 >= 0 && count >= 0 && row0 + count <= tensor.rows(), "rows {} + {} of {}", row0,
           count, tensor.rows());
  WeightRows out;
  out.spec = *spec;
  out.rows = count;
  out.cols = tensor.cols();
  if (is_mlx(tensor.type)) {
    decode_mlx(tensor, row0, out);
    return out;
  }
  if (tensor.transposed) {
    decode_transposed(tensor, row0, out);
    return out;
  }
  const std::byte* data = tensor.data + size_t(row0) * source_row_bytes(tensor.type, out.cols);
  if (out.spec.dense()) {
    out.dense.resize(size_t(count * out.cols));
    dense_to_float(tensor.type, data, count * out.cols, out.dense.data());
  } else {
    decode_blocks(tensor.type, data, out);
  }
  return out;
}

SourceTensor rows_of(const SourceTensor& tensor, int64_t row0, int64_t count) {
  const int64_t rows = tensor.shape.empty() ? 0 : tensor.shape.front();
  RK_CHECK(row0 >= 0 && count >= 0 && row0 + count <= rows, "rows {} + {} of {}", row0, count,
           rows);
  SourceTensor out = tensor;
  out.shape.front() = count;
  if (rows == 0) return out;
  const size_t row_bytes = tensor.bytes / size_t(rows);
  out.bytes = size_t(count) * row_bytes;
  if (tensor.transposed) {
    out.data += size_t(row0) * dense_size(tensor.type);
    if (out.stored_rows == 0) out.stored_rows = rows;
    return out;
  }
  out.data += size_t(row0) * row_bytes;
  move_scales(row0, out);
  return out;
}

SourceTensor matrix_of(const SourceTensor& stack, int64_t index) {
  RK_CHECK(stack.shape.size() == 3 && index >= 0 && index < stack.shape[0], "matrix {} of {}",
           index, stack.name);
  SourceTensor out = stack;
  out.shape.erase(out.shape.begin());
  out.bytes = stack.bytes / size_t(stack.shape[0]);
  out.data += size_t(index) * out.bytes;
  move_scales(index * out.shape[0], out);
  return out;
}

std::vector<std::span<const std::byte>> pieces_of(const SourceTensor& tensor) {
  std::vector<std::span<const std::byte>> pieces = {{tensor.data, tensor.bytes}};
  if (!is_mlx(tensor.type)) return pieces;
  size_t groups = 1;  // of all matrices of a stack
  for (const int64_t extent : tensor.shape) groups *= size_t(extent);
  groups /= size_t(tensor.group);
  const size_t bytes = groups * scale_size(tensor);
  pieces.emplace_back(tensor.scales, bytes);
  if (tensor.biases != nullptr) pieces.emplace_back(tensor.biases, bytes);
  return pieces;
}

std::vector<float> to_floats(const SourceTensor& tensor) {
  int64_t n = 1;
  for (const int64_t size : tensor.shape) n *= size;
  std::vector<float> out(size_t(n), 0.0f);
  if (n == 0) return out;
  if (dense_size(tensor.type) != 0) {
    dense_to_float(tensor.type, tensor.data, n, out.data());
    return out;
  }
  SourceTensor matrix = tensor;  // any shape as [rows, cols]
  matrix.shape = {n / tensor.cols(), tensor.cols()};
  dequantize(decode_rows(matrix, 0, matrix.rows()), out.data());
  return out;
}

}  // namespace ringkeep::quant
