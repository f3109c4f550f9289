#include "kernels/api/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/api/host_weights.h"

namespace ringkeep::kernels {
namespace {

std::string short_name(const quant::WeightSpec& spec) {
  switch (spec.kind) {
    case quant::WeightKind::dense_f32: return "f32";
    case quant::WeightKind::dense_f16: return "f16";
    case quant::WeightKind::dense_bf16: return "bf16";
    default: return fmt::format("{} bits", spec.bits);
  }
}

// Tokens that the rows of a segment see, all together.
double tokens_in_sight(const AttentionParams& p, const KvSegment& segment) {
  double seen = 0;
  for (int64_t row = 0; row < segment.rows; ++row) {
    const int64_t index = segment.index0 + row;
    int64_t tokens = index + 1;
    if (p.chunk_size > 0) tokens = index % p.chunk_size + 1;
    if (p.window > 0) tokens = std::min(tokens, p.window + p.keep);
    seen += static_cast<double>(tokens);
  }
  return seen;
}

}  // namespace

std::string OpProfile::describe(const LinearParams& p, OpCost& cost) {
  int64_t outputs = 0;
  for (int o = 0; o < p.n_outputs; ++o) {
    const PackedTensor& w = *p.outputs[o].weight;
    outputs += w.rows;
    cost.bytes += static_cast<double>(host_weight_bytes(w.spec, w.rows, w.cols));
  }
  const PackedTensor& first = *p.outputs[0].weight;
  cost.operations = 2.0 * static_cast<double>(p.rows * outputs * first.cols);
  return fmt::format("linear {} -> {}, {}", first.cols, outputs, short_name(first.spec));
}

std::string OpProfile::describe(const GroupedLinearParams& p, OpCost& cost) {
  cost.bytes = static_cast<double>(host_grouped_bytes(p));
  int64_t outputs = 0;
  for (int o = 0; o < p.n_outputs; ++o) outputs += p.outputs[o].weight->first.rows;
  const PackedTensor& first = p.outputs[0].weight->first;
  cost.operations = 2.0 * static_cast<double>(p.places * outputs * first.cols);
  return fmt::format("experts {} -> {}, {}", first.cols, outputs, short_name(first.spec));
}

std::string OpProfile::describe(const EmbedParams& p, OpCost& cost) {
  cost.bytes = static_cast<double>(host_weight_bytes(p.table->spec, 1, p.table->cols)) *
               static_cast<double>(p.rows);
  return "embed";
}

std::string OpProfile::describe(const AttentionParams& p, OpCost& cost) {
  for (int64_t s = 0; s < p.n_segments; ++s) {
    const KvSegment& segment = p.segments[s];
    cost.bytes += static_cast<double>(segment.n_pages * p.page_stride);
    cost.operations +=
        2.0 * tokens_in_sight(p, segment) * p.heads * (p.geometry.k_dim + p.geometry.v_dim);
  }
  if (p.chunk_size > 0) return fmt::format("attention, chunks of {}", p.chunk_size);
  return p.window > 0 ? fmt::format("attention, window {}", p.window) : "attention, full";
}

}  // namespace ringkeep::kernels
