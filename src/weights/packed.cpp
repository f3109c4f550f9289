#include "weights/packed.h"

#include <algorithm>

namespace ringkeep::weights {
namespace {

constexpr int64_t kSlabBytes = 8 << 20;  // source bytes read before their pages are let go of

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Rows of the source in packed order. Rows that stay in place are decoded in one call.
quant::WeightRows gather(const quant::SourceTensor& source, const RowOrder& order, int64_t row0,
                         int64_t count) {
  if (order.empty()) return quant::decode_rows(source, row0, count);
  quant::WeightRows all;
  for (int64_t i = 0; i < count; ++i) {
    auto row = quant::decode_rows(source, order[static_cast<size_t>(row0 + i)], 1);
    if (i == 0) {
      all = std::move(row);
      continue;
    }
    append(all.codes, row.codes);
    append(all.scales, row.scales);
    append(all.biases, row.biases);
    append(all.sub_scales, row.sub_scales);
    append(all.sub_mins, row.sub_mins);
    append(all.supers, row.supers);
    append(all.super_mins, row.super_mins);
    append(all.dense, row.dense);
  }
  all.rows = count;
  return all;
}

}  // namespace

Result<quant::WeightSpec> packed_spec(const quant::SourceTensor& source,
                                      const PackOptions& options) {
  const auto spec = RK_TRY(quant::spec_of(source));
  if (!spec.dense() || options.weight_bits == 0) return spec;
  if (source.cols() % options.weight_group != 0)
    return input_error("{}: {} columns are not a multiple of --weight-group {}", source.name,
                       source.cols(), options.weight_group);
  return quant::WeightSpec{.kind = quant::WeightKind::affine,
                           .bits = options.weight_bits,
                           .group = options.weight_group,
                           .scale = quant::ScaleKind::f16};
}

int64_t pack_step(const kernels::Ops& ops) {
  return ops.weight_row_block * std::max<int64_t>(1, 64 / ops.weight_row_block);
}

void pack_part(const quant::SourceTensor& source, const RowOrder& order,
               const quant::WeightSpec& spec, int64_t rows, int64_t row0, const kernels::Ops& ops,
               std::byte* data) {
  auto decoded = gather(source, order, row0, std::min(pack_step(ops), rows - row0));
  if (decoded.spec.dense() && !spec.dense())
    decoded = quant::quantize_rows(decoded.dense.data(), decoded.rows, decoded.cols, spec.bits,
                                   spec.group);
  ops.pack_rows(data, rows, source.cols(), row0, decoded);
}

Result<OwnedTensor> pack_matrix(const quant::SourceTensor& source, const MappedFile& file,
                                const RowOrder& order, const PackOptions& options,
                                const kernels::Ops& ops, kernels::Device& device) {
  const auto spec = RK_TRY(packed_spec(source, options));
  const int64_t rows = source.rows();
  const int64_t cols = source.cols();
  OwnedTensor out;
  out.buffer = RK_TRY(device.allocate(ops.weight_bytes(spec, rows, cols)));
  out.tensor = {.spec = spec, .rows = rows, .cols = cols, .data = out.buffer.data()};

  const int64_t block = pack_step(ops);
  const size_t row_bytes = source.bytes / static_cast<size_t>(std::max<int64_t>(1, rows));
  // Reordered rows may come from anywhere in their head: read the matrix in one go.
  const int64_t slab =
      order.empty()
          ? block * std::max<int64_t>(1, kSlabBytes / (static_cast<int64_t>(row_bytes) * block + 1))
          : rows;
  for (int64_t begin = 0; begin < rows; begin += slab) {
    const int64_t end = std::min(rows, begin + slab);
    device.pool().parallel_for((end - begin + block - 1) / block, [&](int64_t task, int) {
      pack_part(source, order, spec, rows, begin + task * block, ops, out.buffer.data());
    });
    // Of the whole file: a fault maps its neighbours too.
    file.drop(0, file.bytes().size());
  }
  return out;
}

Result<StackShape> stack_shape(std::span<const quant::SourceTensor> sources, const RowOrder& order,
                               const PackOptions& options) {
  const quant::SourceTensor& first = sources.front();
  const auto spec = RK_TRY(packed_spec(first, options));
  for (const quant::SourceTensor& source : sources)
    if (const auto own = RK_TRY(packed_spec(source, options)); own != spec)
      return input_error("{}: {}, expected {} as {} has: experts of a layer share one type",
                         source.name, quant::describe(own), quant::describe(spec), first.name);
  return StackShape{spec, order.empty() ? first.rows() : static_cast<int64_t>(order.size()),
                    first.cols()};
}

Result<OwnedStack> pack_stack(std::span<const quant::SourceTensor> sources,
                              std::span<const MappedFile> files, const RowOrder& order,
                              const PackOptions& options, const kernels::Ops& ops,
                              kernels::Device& device) {
  const StackShape shape = RK_TRY(stack_shape(sources, order, options));
  const quant::WeightSpec& spec = shape.spec;
  const int64_t rows = shape.rows, cols = shape.cols;
  const quant::SourceTensor& first = sources.front();
  const auto count = static_cast<int64_t>(sources.size());
  const size_t stride = ops.weight_bytes(spec, rows, cols);
  OwnedStack out;
  out.buffer = RK_TRY(device.allocate(stride * sources.size()));
  out.stack = {.first = {.spec = spec, .rows = rows, .cols = cols, .data = out.buffer.data()},
               .count = count,
               .stride = stride};

  const int64_t block = pack_step(ops);
  const int64_t blocks = (rows + block - 1) / block;  // of one matrix
  const auto row_bytes = static_cast<int64_t>(first.bytes) / std::max<int64_t>(1, first.rows());
  const int64_t slab = std::max<int64_t>(1, kSlabBytes / (row_bytes * block + 1));  // blocks
  for (int64_t begin = 0; begin < count * blocks; begin += slab) {
    const int64_t end = std::min(count * blocks, begin + slab);
    device.pool().parallel_for(end - begin, [&](int64_t task, int) {
      const auto e = static_cast<size_t>((begin + task) / blocks);
      pack_part(sources[e], order, spec, rows, (begin + task) % blocks * block, ops,
                out.buffer.data() + e * stride);
    });
    for (int64_t e = begin / blocks; e <= (end - 1) / blocks; ++e) {
      const MappedFile& file = files[static_cast<size_t>(sources[static_cast<size_t>(e)].file)];
      file.drop(0, file.bytes().size());
    }
  }
  return out;
}

Result<OwnedVector> upload(const std::vector<float>& values, kernels::Device& device) {
  OwnedVector out;
  out.size = static_cast<int64_t>(values.size());
  out.buffer = RK_TRY(device.allocate(values.size() * sizeof(float)));
  device.copy_in(out.buffer.data(), values.data(), values.size() * sizeof(float));
  return out;
}

}  // namespace ringkeep::weights
