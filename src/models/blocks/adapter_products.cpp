#include "models/blocks/adapter_products.h"

#include <algorithm>

namespace ringkeep::models {
namespace {

constexpr int64_t kMostOutputs = 3;  // of one linear op: q, k and v

size_t hidden_bytes(const weights::AdapterSizes& sizes, int64_t max_rows, int64_t head_rows) {
  return static_cast<size_t>(std::max(max_rows, head_rows) * kMostOutputs * sizes.rank) *
         sizeof(float);
}

size_t delta_bytes(const weights::AdapterSizes& sizes, int64_t max_rows, int64_t head_rows) {
  return static_cast<size_t>(std::max(max_rows * sizes.outputs, head_rows * sizes.head_outputs)) *
         sizeof(float);
}

}  // namespace

size_t AdapterProducts::bytes(const weights::AdapterSizes& sizes, int64_t max_rows,
                              int64_t head_rows) {
  return hidden_bytes(sizes, max_rows, head_rows) + delta_bytes(sizes, max_rows, head_rows);
}

Status AdapterProducts::reserve(const weights::AdapterSizes& sizes, int64_t max_rows,
                                int64_t head_rows, kernels::Device& device) {
  const auto grown = [&](const kernels::DeviceBuffer& old, size_t size) {
    return size > old.size() ? device.allocate(size) : kernels::DeviceBuffer();
  };
  kernels::DeviceBuffer hidden = RK_TRY(grown(hidden_, hidden_bytes(sizes, max_rows, head_rows)));
  kernels::DeviceBuffer delta = RK_TRY(grown(delta_, delta_bytes(sizes, max_rows, head_rows)));
  if (hidden.size() > 0) hidden_ = std::move(hidden);
  if (delta.size() > 0) delta_ = std::move(delta);
  return {};
}

void AdapterProducts::add(const kernels::LinearParams& p, std::span<const AdapterRows> runs,
                          const kernels::Ops& ops, kernels::Exec& exec) {
  for (const AdapterRows& run : runs) add_run(p, run, ops, exec);
}

void AdapterProducts::add_run(const kernels::LinearParams& p, const AdapterRows& run,
                              const kernels::Ops& ops, kernels::Exec& exec) {
  struct Part {
    const kernels::LinearOutput* out;
    const weights::AdapterFactors* factors;
    int64_t at;  // column of its A x
  };
  std::vector<Part> parts;
  std::vector<kernels::LinearOutput> as;
  int64_t width = 0;  // of all A x
  for (const kernels::LinearOutput& out : std::span(p.outputs, static_cast<size_t>(p.n_outputs))) {
    const weights::AdapterFactors* factors = run.adapter->beside(*out.weight);
    if (factors == nullptr) continue;
    const auto same = std::ranges::find_if(
        parts, [&](const Part& part) { return part.factors->a == factors->a; });
    if (same != parts.end()) {
      parts.push_back({&out, factors, same->at});
      continue;
    }
    parts.push_back({&out, factors, width});
    as.push_back({.weight = &factors->a->tensor, .y = hidden_.as<float>() + width});
    width += factors->a->tensor.rows;
  }
  if (parts.empty()) return;
  for (kernels::LinearOutput& a : as) a.y_stride = width;
  RK_CHECK(static_cast<size_t>(run.rows * width) * sizeof(float) <= hidden_.size());

  kernels::LinearParams product = p;
  product.x += run.row0 * p.x_stride;
  product.rows = run.rows;
  product.fine_rows = std::clamp<int64_t>(p.fine_rows - run.row0, 0, run.rows);
  product.outputs = as.data();
  product.n_outputs = static_cast<int>(as.size());
  kernels::run(ops.linear, product, exec);
  for (const Part& part : parts) {
    const kernels::PackedTensor& b = part.factors->b.tensor;
    RK_CHECK(static_cast<size_t>(run.rows * b.rows) * sizeof(float) <= delta_.size());
    const kernels::LinearOutput out = {.weight = &b, .y = delta_.as<float>(), .y_stride = b.rows};
    product.x = hidden_.as<float>() + part.at;
    product.x_stride = width;
    product.outputs = &out;
    product.n_outputs = 1;
    kernels::run(ops.linear, product, exec);
    // Rows that lie apart are added one by one.
    float* y = part.out->y + run.row0 * part.out->y_stride;
    const bool whole = part.out->y_stride == b.rows;
    for (int64_t row = 0; row < (whole ? 1 : run.rows); ++row)
      kernels::run(ops.add,
                   kernels::AddParams{.x = delta_.as<float>() + row * b.rows,
                                      .y = y + row * part.out->y_stride,
                                      .n = whole ? run.rows * b.rows : b.rows},
                   exec);
  }
}

}  // namespace ringkeep::models
