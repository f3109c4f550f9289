#include "weights/adapter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/dtype.h"

namespace ringkeep::weights {
namespace {

using Pair = AdapterSource::Pair;

// [rows, cols] on the host.
struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<float> values;
};

// A of a pair [rank, inputs].
Matrix a_of(const Pair& pair) {
  Matrix a{pair.rank, pair.inputs, quant::to_floats(*pair.a)};
  if (!pair.transposed) return a;
  const std::vector<float> stored = std::move(a.values);  // [inputs, rank]
  a.values.resize(stored.size());
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t c = 0; c < a.cols; ++c)
      a.values[static_cast<size_t>(r * a.cols + c)] = stored[static_cast<size_t>(c * a.rows + r)];
  return a;
}

// B of a pair [outputs, rank], rows in our order, times the scale.
Matrix b_of(const Pair& pair) {
  const std::vector<float> stored = quant::to_floats(*pair.b);
  const int64_t stored_rows = static_cast<int64_t>(stored.size()) / pair.rank;
  const auto scale = static_cast<float>(pair.scale);
  Matrix b{pair.outputs, pair.rank,
           std::vector<float>(static_cast<size_t>(pair.outputs * pair.rank))};
  for (int64_t i = 0; i < b.rows; ++i) {
    const int64_t row = pair.first + (pair.order.empty() ? i : pair.order[static_cast<size_t>(i)]);
    for (int64_t r = 0; r < b.cols; ++r) {
      const int64_t at = pair.transposed ? r * stored_rows + row : row * b.cols + r;
      b.values[static_cast<size_t>(i * b.cols + r)] = stored[static_cast<size_t>(at)] * scale;
    }
  }
  return b;
}

Status check_finite(const Matrix& matrix, const quant::SourceTensor& source,
                    const AdapterSource& adapter) {
  if (std::ranges::all_of(matrix.values, [](float x) { return std::isfinite(x); })) return {};
  return input_error("{}: tensor {}: a value is not finite, or too large for its scale",
                     adapter.file().path, source.name);
}

// The narrowest type that holds the values exactly.
quant::WeightSpec spec_of(const Matrix& matrix) {
  const auto all = [&](auto narrow, auto wide) {
    return std::ranges::all_of(matrix.values, [&](float x) { return wide(narrow(x)) == x; });
  };
  if (all(float_to_bf16, bf16_to_float)) return {.kind = quant::WeightKind::dense_bf16};
  if (all(float_to_f16, f16_to_float)) return {.kind = quant::WeightKind::dense_f16};
  return {.kind = quant::WeightKind::dense_f32};
}

Result<OwnedTensor> pack(Matrix matrix, const kernels::Ops& ops, kernels::Device& device) {
  const quant::WeightSpec spec = spec_of(matrix);
  OwnedTensor out;
  out.buffer = RK_TRY(device.allocate(ops.weight_bytes(spec, matrix.rows, matrix.cols)));
  out.tensor = {.spec = spec, .rows = matrix.rows, .cols = matrix.cols, .data = out.buffer.data()};
  quant::WeightRows rows;
  rows.spec = spec;
  rows.rows = matrix.rows;
  rows.cols = matrix.cols;
  rows.dense = std::move(matrix.values);
  ops.pack_rows(out.buffer.data(), rows.rows, rows.cols, 0, rows);
  return out;
}

// The matrix that a pair stands beside; empty where these weights have none.
const kernels::PackedTensor& matrix_of(const Pair& pair, const DecoderWeights& weights) {
  const LayerWeights& layer = weights.layers[static_cast<size_t>(pair.layer)];
  switch (pair.part) {
    case Part::q: return layer.q.tensor;
    case Part::k: return layer.k.tensor;
    case Part::v: return layer.v.tensor;
    case Part::o: return layer.o.tensor;
    case Part::gate: return layer.gate.tensor;
    case Part::up: return layer.up.tensor;
    case Part::down: return layer.down.tensor;
    case Part::layer_gate: return layer.layer_gate.tensor;
    case Part::layer_proj: return layer.layer_proj.tensor;
    case Part::laurel_left: return layer.laurel.left.tensor;
    case Part::laurel_right: return layer.laurel.right.tensor;
    case Part::altup_router: return layer.altup.router.tensor;
    case Part::layer_model_proj: return weights.layer_model_proj.tensor;
    case Part::lm_head: return weights.head();
    default: break;
  }
  RK_CHECK(false, "no adapter stands beside this part");
  return layer.q.tensor;
}

void measure(const Pair& pair, AdapterSizes& sizes) {
  sizes.rank = std::max(sizes.rank, pair.rank);
  int64_t& outputs = pair.part == Part::lm_head ? sizes.head_outputs : sizes.outputs;
  outputs = std::max(outputs, pair.outputs);
}

}  // namespace

void AdapterSizes::grow(const AdapterSizes& other) {
  rank = std::max(rank, other.rank);
  outputs = std::max(outputs, other.outputs);
  head_outputs = std::max(head_outputs, other.head_outputs);
}

Result<AdapterSizes> adapter_sizes(const AdapterSource& source, const kernels::Ops& ops) {
  AdapterSizes sizes;
  std::set<const quant::SourceTensor*> counted;  // an A that several parts share
  const auto add = [&](const Matrix& matrix, const quant::SourceTensor& tensor) -> Status {
    RK_TRY(check_finite(matrix, tensor, source));
    sizes.bytes += ops.weight_bytes(spec_of(matrix), matrix.rows, matrix.cols);
    return {};
  };
  for (const Pair& pair : source.pairs()) {
    measure(pair, sizes);
    if (counted.insert(pair.a).second) RK_TRY(add(a_of(pair), *pair.a));
    RK_TRY(add(b_of(pair), *pair.b));
  }
  return sizes;
}

Result<Adapter> Adapter::load(const AdapterSource& source, const DecoderWeights& weights,
                              const kernels::Ops& ops, kernels::Device& device) {
  Adapter adapter;
  adapter.sha256_ = source.sha256();
  std::map<const quant::SourceTensor*, std::shared_ptr<const OwnedTensor>> shared;
  for (const Pair& pair : source.pairs()) {
    const kernels::PackedTensor& matrix = matrix_of(pair, weights);
    if (matrix.rows != pair.outputs || matrix.cols != pair.inputs)
      return input_error("{}: module {}: the model has {} there, expected a matrix [{}, {}]",
                         source.file().path, pair.module,
                         matrix.rows == 0 ? std::string("none")
                                          : fmt::format("[{}, {}]", matrix.rows, matrix.cols),
                         pair.outputs, pair.inputs);
    measure(pair, adapter.sizes_);
    std::shared_ptr<const OwnedTensor>& a = shared[pair.a];
    if (a == nullptr) {
      Matrix values = a_of(pair);
      RK_TRY(check_finite(values, *pair.a, source));
      a = std::make_shared<const OwnedTensor>(RK_TRY(pack(std::move(values), ops, device)));
      adapter.sizes_.bytes += a->buffer.size();
    }
    Matrix values = b_of(pair);
    RK_TRY(check_finite(values, *pair.b, source));
    AdapterFactors factors{a, RK_TRY(pack(std::move(values), ops, device))};
    adapter.sizes_.bytes += factors.b.buffer.size();
    adapter.factors_.emplace(matrix.data, std::move(factors));
  }
  source.file().file.drop(0, source.file().file.bytes().size());
  return adapter;
}

}  // namespace ringkeep::weights
