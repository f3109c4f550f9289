#include "models/key_statistics.h"

#include <cmath>

namespace ringkeep::models {
namespace {

std::vector<float> to_host(const float* values, int64_t count, kernels::Device& device) {
  std::vector<float> host(static_cast<size_t>(count));
  device.copy_out(host.data(), reinterpret_cast<const std::byte*>(values),
                  host.size() * sizeof(float));
  return host;
}

// Root mean squares of one head from its sums. [dim]
std::vector<float> rms_of(const std::vector<double>& sums, size_t begin, size_t dim, int64_t rows) {
  std::vector<float> rms(dim);
  for (size_t i = 0; i < dim; ++i)
    rms[i] = static_cast<float>(std::sqrt(sums[begin + i] / static_cast<double>(rows)));
  return rms;
}

}  // namespace

void KeyStatistics::add(const LayerSpec& spec, size_t layer, int64_t rows, const float* q,
                        const float* k, kernels::Device& device) {
  if (k == nullptr) layer = static_cast<size_t>(spec.donor);
  if (layers.size() <= layer) layers.resize(layer + 1);
  Layer& sums = layers[layer];
  const auto dim = static_cast<size_t>(spec.k_dim);
  const auto heads = static_cast<size_t>(spec.heads), kv_heads = static_cast<size_t>(spec.kv_heads);
  const size_t group = heads / kv_heads;
  sums.q.resize(kv_heads * dim);
  sums.k.resize(kv_heads * dim);
  sums.kv_heads = kv_heads;
  if (k != nullptr) sums.rows += rows;
  device.sync();
  const auto q_rows = to_host(q, rows * spec.heads * spec.k_dim, device);
  const double share = 1.0 / static_cast<double>(group);
  for (size_t i = 0; i < q_rows.size(); ++i) {
    const size_t head = i / dim % heads;
    sums.q[head / group * dim + i % dim] += share * q_rows[i] * q_rows[i];
  }
  if (k == nullptr) return;
  const auto k_rows = to_host(k, rows * spec.kv_heads * spec.k_dim, device);
  for (size_t i = 0; i < k_rows.size(); ++i)
    sums.k[i % (kv_heads * dim)] += static_cast<double>(k_rows[i]) * k_rows[i];
}

weights::KeyBalance KeyStatistics::balance(const ModelConfig& config) const {
  weights::KeyBalance result(config.layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& sums = layers[i];
    const auto dim = static_cast<size_t>(config.layers[i].k_dim);
    for (size_t begin = 0; begin < sums.k.size(); begin += dim) {
      const auto c = weights::key_balance(rms_of(sums.q, begin, dim, sums.rows),
                                          rms_of(sums.k, begin, dim, sums.rows),
                                          config.layers[i].rope.rotary_dim);
      result[i].insert(result[i].end(), c.begin(), c.end());
    }
  }
  return result;
}

double KeyStatistics::score_noise(const weights::KeyBalance& balance) const {
  double total = 0;
  int64_t heads = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& sums = layers[i];
    const auto& c = balance[i];
    if (sums.k.empty()) continue;
    const size_t dim = sums.k.size() / sums.kv_heads;
    for (size_t begin = 0; begin < sums.k.size(); begin += dim) {
      double key = 0, query = 0, best = 0;
      for (size_t j = 0; j < dim; ++j) {
        const double f = c.empty() ? 1.0 : c[c.size() == dim ? j : begin + j];
        key += sums.k[begin + j] * f * f;
        query += sums.q[begin + j] / (f * f);
        best += std::sqrt(sums.k[begin + j] * sums.q[begin + j]);
      }
      if (best > 0) total += std::sqrt(key * query) / best;
      ++heads;
    }
  }
  return heads > 0 ? total / static_cast<double>(heads) : 1.0;
}

}  // namespace ringkeep::models
