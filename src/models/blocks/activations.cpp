#include "models/blocks/activations.h"

#include <algorithm>

namespace ringkeep::models {
namespace {

struct Widths {  // floats a row, the widest layer of each
  int64_t q = 0, k = 0, v = 0, attn = 0;
};

Widths widths(const ModelConfig& config) {
  Widths w;
  for (const auto& layer : config.layers) {
    w.q = std::max(w.q, static_cast<int64_t>(layer.heads) * layer.k_dim);
    w.k = std::max(w.k, static_cast<int64_t>(layer.kv_heads) * layer.k_dim);
    w.v = std::max(w.v, static_cast<int64_t>(layer.kv_heads) * layer.v_dim);
    w.attn = std::max(w.attn, static_cast<int64_t>(layer.heads) * layer.v_dim);
  }
  return w;
}

// Hands out consecutive 64-byte aligned pieces; with no memory it only counts.
struct Carver {
  std::byte* memory = nullptr;
  size_t used = 0;
  template <typename T>
  void take(T*& pointer, int64_t count) {
    pointer = memory != nullptr ? reinterpret_cast<T*>(memory + used) : nullptr;
    used += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
  }
};

// Sets the pointers of a mixture of experts.
void carve_experts(Activations& a, Carver& carver, const ModelConfig& config, int64_t rows) {
  if (config.experts == 0) return;
  const int64_t places = std::min(rows, kMaxExpertRows) * config.experts_used;
  carver.take(a.router, rows * config.experts);
  carver.take(a.routed, rows * config.hidden);
  carver.take(a.shared, rows * config.hidden);
  carver.take(a.shared_gate, rows);
  carver.take(a.expert_gate, places * config.expert_hidden);
  carver.take(a.expert_up, places * config.expert_hidden);
  carver.take(a.expert_out, places * config.hidden);
  carver.take(a.expert, places);
  carver.take(a.expert_weight, places);
  if (config.expert_sigmoid_input) carver.take(a.place_weight, places);
  carver.take(a.place, places);
  carver.take(a.row_of, places);
  carver.take(a.begin, config.experts + 1);
  carver.take(a.fine, config.experts);
}

size_t carve(Activations& a, std::byte* memory, const ModelConfig& config, int64_t rows) {
  const Widths w = widths(config);
  Carver carver{memory};
  carver.take(a.x, rows * config.hidden);
  carver.take(a.h, rows * config.hidden);
  carver.take(a.branch, rows * config.hidden);
  carver.take(a.q, rows * w.q);
  carver.take(a.k, rows * w.k);
  carver.take(a.v, rows * w.v);
  carver.take(a.attn, rows * w.attn);
  const int64_t ffn = std::max(config.ffn_hidden, config.shared_expert_hidden);
  carver.take(a.gate, rows * ffn);
  carver.take(a.up, rows * ffn);
  const int64_t embedded = static_cast<int64_t>(config.layers.size()) * config.layer_embedding;
  carver.take(a.layer_in, rows * embedded);
  carver.take(a.layer_gate, rows * embedded);
  if (config.altup_streams > 0) {
    carver.take(a.streams, config.altup_streams * rows * config.hidden);
    carver.take(a.modalities, rows * config.altup_streams);
  }
  if (config.laurel_rank > 0) {
    carver.take(a.laurel, rows * config.hidden);
    carver.take(a.laurel_mid, rows * config.laurel_rank);
  }
  carver.take(a.picked, kMaxLogitRows * config.hidden);
  carver.take(a.logits, kMaxLogitRows * config.vocab_size);
  carver.take(a.tokens, rows);
  carver.take(a.positions, rows);
  if (config.query_scale_beta != 0.0f) carver.take(a.query_scale, rows);
  carve_experts(a, carver, config, rows);
  carver.take(a.non_finite, 1);
  return carver.used;
}

// Distinct rotary embeddings, and which one each layer uses (-1: none).
std::vector<RopeSpec> distinct_ropes(const ModelConfig& config, std::vector<int>& by_layer) {
  std::vector<RopeSpec> ropes;
  for (const auto& layer : config.layers) {
    if (layer.rope.rotary_dim == 0) {
      by_layer.push_back(-1);
      continue;
    }
    const auto found = std::find(ropes.begin(), ropes.end(), layer.rope);
    by_layer.push_back(static_cast<int>(found - ropes.begin()));
    if (found == ropes.end()) ropes.push_back(layer.rope);
  }
  return ropes;
}

}  // namespace

size_t Activations::bytes(const ModelConfig& config, int64_t max_rows) {
  Activations a;
  return carve(a, nullptr, config, max_rows);
}

Result<Activations> Activations::allocate(const ModelConfig& config, int64_t max_rows,
                                          kernels::Device& device) {
  Activations a;
  a.max_rows = max_rows;
  a.memory = RK_TRY(device.allocate(bytes(config, max_rows)));
  carve(a, a.memory.data(), config, max_rows);
  return a;
}

size_t RopeTables::bytes(const ModelConfig& config, int64_t max_rows) {
  std::vector<int> by_layer;
  size_t total = 0;
  for (const auto& rope : distinct_ropes(config, by_layer))
    total += static_cast<size_t>(rope.rotary_dim / 2) * static_cast<size_t>(2 * max_rows + 1) *
             sizeof(float);
  return total;
}

Result<RopeTables> RopeTables::create(const ModelConfig& config, int64_t max_rows,
                                      kernels::Device& device) {
  RopeTables result;
  for (const auto& rope : distinct_ropes(config, result.by_layer_)) {
    Table table;
    table.rope = rope;
    table.pairs = rope.rotary_dim / 2;
    const size_t row_bytes = static_cast<size_t>(table.pairs) * sizeof(float);
    table.frequencies = RK_TRY(device.allocate(row_bytes));
    table.cos = RK_TRY(device.allocate(row_bytes * static_cast<size_t>(max_rows)));
    table.sin = RK_TRY(device.allocate(row_bytes * static_cast<size_t>(max_rows)));
    device.copy_in(table.frequencies.data(), rope_frequencies(rope).data(), row_bytes);
    result.tables_.push_back(std::move(table));
  }
  return result;
}

void RopeTables::fill(const int32_t* positions, int64_t rows, const kernels::Ops& ops,
                      kernels::Exec& exec) {
  for (auto& table : tables_)
    kernels::run(ops.rope_table,
                 kernels::RopeTableParams{
                     .positions = positions,
                     .rows = rows,
                     .frequencies = table.frequencies.as<float>(),
                     .pairs = table.pairs,
                     .attention_factor = static_cast<float>(table.rope.attention_factor),
                     .cos = table.cos.as<float>(),
                     .sin = table.sin.as<float>()},
                 exec);
}

}  // namespace ringkeep::models
