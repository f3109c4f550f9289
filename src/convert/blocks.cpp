#include "convert/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "base/sha256.h"
#include "quant/affine_group.h"

namespace ringkeep::convert {
namespace {

using quant::SourceTensor;
using quant::SourceType;
using quant::WeightRows;

constexpr int64_t kBlockElements = int64_t{1} << 16;

std::vector<std::byte> to_bytes(const std::vector<float>& values, SourceType type) {
  std::vector<std::byte> out(values.size() * dtype_bytes(type));
  if (type == SourceType::f32) {
    if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
    return out;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits =
        type == SourceType::f16 ? float_to_f16(values[i]) : float_to_bf16(values[i]);
    std::memcpy(out.data() + 2 * i, &bits, sizeof bits);
  }
  return out;
}

quant::ScaleKind scale_kind(SourceType type) {
  return type == SourceType::f16    ? quant::ScaleKind::f16
         : type == SourceType::bf16 ? quant::ScaleKind::bf16
                                    : quant::ScaleKind::f32;
}

// A tensor of any shape as one column, so that its elements can be taken from anywhere. A
// transposed matrix stays as it is: its rows are the blocks.
SourceTensor as_column(const SourceTensor& tensor) {
  if (tensor.transposed) return tensor;
  SourceTensor column = tensor;
  int64_t elements = 1;
  for (const int64_t size : tensor.shape) elements *= size;
  column.shape = {elements, 1};
  return column;
}

template <typename T>
void add(Sha256& sum, const std::vector<T>& values) {
  sum.update(std::as_bytes(std::span(values)));
}

std::string digest_rows(const WeightRows& rows) {
  Sha256 sum;
  add(sum, rows.codes);
  add(sum, rows.scales);
  add(sum, rows.biases);
  add(sum, rows.dense);
  return sum.hex();
}

std::string shown(float value) { return std::isnan(value) ? "NaN" : fmt::format("{:.6g}", value); }

Error not_finite(const PlannedModule& planned, const Block& block, int64_t index, int64_t cols,
                 float value) {
  return input_error("{}: the weight at row {}, column {} is {}, expected a finite number",
                     planned.module.parts[block.part].name, block.row0 + index / cols, index % cols,
                     shown(value));
}

Error beyond_type(const PlannedModule& planned, const char* what) {
  return input_error("{}: {} too large for {}; --dtype bfloat16 or float32 holds them",
                     planned.module.parts.front().name, what, dtype_text(planned.type));
}

bool finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

Result<Encoded> encode_matrix(const PlannedModule& planned, const Block& block,
                              quant::AffineMethod method, std::span<const float> importance) {
  const SourceTensor& source = planned.module.parts[block.part];
  const int64_t cols = source.cols();
  const WeightRows dense = quant::decode_rows(source, block.row0, block.rows);
  for (size_t i = 0; i < dense.dense.size(); ++i)
    if (!std::isfinite(dense.dense[i]))
      return not_finite(planned, block, static_cast<int64_t>(i), cols, dense.dense[i]);
  const quant::AffineTarget target{planned.setting.bits, planned.setting.group,
                                   scale_kind(planned.type), method};
  Encoded out;
  const float* in = dense.dense.data();
  const WeightRows rows = quant::quantize_affine(in, block.rows, cols, target, importance);
  if (!finite(rows.scales) || !finite(rows.biases)) return beyond_type(planned, "weights are");
  out.data.resize(static_cast<size_t>(block.rows * cols * target.bits / 8));
  quant::pack_mlx_codes(rows.codes.data(), block.rows * cols, target.bits, out.data.data());
  out.scales = to_bytes(rows.scales, planned.type);
  out.biases = to_bytes(rows.biases, planned.type);
  out.digest = digest_rows(rows);
  const auto zero = [&](std::span<const float> weigh) {  // the error of writing zeros
    double sum = 0.0;
    for (int64_t i = 0; i < block.rows * cols; ++i)
      sum += double(in[i]) * in[i] * (weigh.empty() ? 1.0 : weigh[static_cast<size_t>(i % cols)]);
    return sum;
  };
  out.error.squared = quant::squared_error(in, rows);
  out.error.weight = zero({});
  if (!importance.empty()) {
    out.error.output_squared = quant::squared_error(in, rows, importance);
    out.error.output_weight = zero(importance);
  }
  return out;
}

Result<Encoded> encode_floats(const PlannedModule& planned, const Block& block) {
  const SourceTensor column = as_column(planned.module.parts.at(block.part));
  WeightRows rows = quant::decode_rows(column, block.row0, block.rows);
  Encoded out;
  out.data = to_bytes(rows.dense, planned.type);
  for (int64_t i = 0; i < block.rows * column.cols(); ++i) {
    float& value = rows.dense[static_cast<size_t>(i)];
    if (std::isnan(value))
      return input_error("{}: element {} is NaN, expected a number", column.name,
                         block.row0 * column.cols() + i);
    const float before = value;
    if (planned.type != SourceType::f32) value = quant::round_to(value, scale_kind(planned.type));
    if (std::isinf(value) && !std::isinf(before)) return beyond_type(planned, "elements are");
  }
  out.digest = digest_rows(rows);
  return out;
}

}  // namespace

std::vector<Block> blocks_of(const PlannedModule& planned) {
  std::vector<Block> blocks;
  int64_t at = 0;
  for (size_t part = 0; part < planned.module.parts.size(); ++part) {
    const SourceTensor& source = planned.module.parts[part];
    const bool raw = planned.type == SourceType::other;
    const int64_t rows = raw                      ? static_cast<int64_t>(source.bytes)
                         : planned.setting.keep() ? as_column(source).rows()
                                                  : source.rows();
    const int64_t cols = planned.setting.keep() ? as_column(source).cols() : source.cols();
    const int64_t step = std::max<int64_t>(1, kBlockElements / cols);
    for (int64_t row = 0; row < rows; row += step) {
      const int64_t count = std::min(step, rows - row);
      blocks.push_back({part, row, count, at});
      at += count;
    }
  }
  return blocks;
}

Result<Encoded> encode_block(const PlannedModule& planned, const Block& block,
                             quant::AffineMethod method, std::span<const float> importance) {
  if (planned.type == SourceType::other) {
    Encoded out;
    const std::byte* data = planned.module.parts.front().data + block.row0;
    out.data.assign(data, data + block.rows);
    out.digest = sha256_hex(std::span(data, static_cast<size_t>(block.rows)));
    return out;
  }
  return planned.setting.keep() ? encode_floats(planned, block)
                                : encode_matrix(planned, block, method, importance);
}

std::string digest_of(const PlannedModule& planned, const Block& block,
                      const SourceTensor& written) {
  if (planned.type == SourceType::other)
    return sha256_hex(std::span(written.data + block.at, static_cast<size_t>(block.rows)));
  if (planned.setting.keep()) {
    const int64_t cols = as_column(planned.module.parts.at(block.part)).cols();
    return digest_rows(quant::decode_rows(as_column(written), block.at * cols, block.rows * cols));
  }
  SourceTensor matrix = written;  // experts below each other
  matrix.shape = {planned.module.weights() / written.cols(), written.cols()};
  return digest_rows(quant::decode_rows(matrix, block.at, block.rows));
}

}  // namespace ringkeep::convert
