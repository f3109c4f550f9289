#include "models/blocks/qk_norms.h"

namespace ringkeep::models {
namespace {

// Norm weights [k_dim] on the host; 1 where the model has no norm.
std::vector<float> to_host(const weights::OwnedVector& vector, int k_dim, kernels::Device& device) {
  std::vector<float> values(static_cast<size_t>(k_dim), 1.0f);
  if (vector.size > 0)
    device.copy_out(values.data(), vector.buffer.data(), values.size() * sizeof(float));
  return values;
}

}  // namespace

Result<QkNorms> QkNorms::fold(const LayerSpec& spec, const weights::LayerWeights& layer,
                              const std::vector<float>& c, kernels::Device& device) {
  QkNorms norms;
  if (c.empty()) return norms;
  const auto dim = static_cast<size_t>(spec.k_dim);
  const auto kv_heads = static_cast<size_t>(spec.kv_heads);
  const bool one_for_all = c.size() == dim;
  RK_CHECK(one_for_all || c.size() == kv_heads * dim, "{} factors for {} KV heads of {}", c.size(),
           kv_heads, dim);
  const auto q_norm = to_host(layer.q_norm, spec.k_dim, device);
  const auto k_norm = to_host(layer.k_norm, spec.k_dim, device);
  const size_t group = static_cast<size_t>(spec.heads) / kv_heads;  // query heads of a KV head
  std::vector<float> q(one_for_all ? dim : dim * kv_heads * group), k(c.size());
  for (size_t i = 0; i < k.size(); ++i) k[i] = k_norm[i % dim] * c[i];
  for (size_t i = 0; i < q.size(); ++i)
    q[i] = q_norm[i % dim] / c[one_for_all ? i : i / dim / group * dim + i % dim];
  norms.q_ = RK_TRY(weights::upload(q, device));
  norms.k_ = RK_TRY(weights::upload(k, device));
  norms.head_stride_ = one_for_all ? 0 : spec.k_dim;
  return norms;
}

}  // namespace ringkeep::models
