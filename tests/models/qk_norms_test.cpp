// A balance folded into run-time weights equals multiplying K by c and dividing Q by it, per KV
// head, with and without q and k norms.
#include "models/blocks/qk_norms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/select/select.h"

namespace ringkeep::models {
namespace {

class QkNormsTest : public testing::TestWithParam<bool> {};  // the model has norms

TEST_P(QkNormsTest, FoldedEqualsExplicit) {
  LayerSpec spec;
  spec.heads = 6;
  spec.kv_heads = 3;
  spec.k_dim = 32;
  const int64_t rows = 5, pairs = 16;
  const auto device = kernels::make_cpu_device(1);
  const kernels::Ops ops = kernels::cpu_backend();
  kernels::Exec exec(*device);
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  const auto draw = [&](int64_t n) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = normal(random);
    return values;
  };
  weights::LayerWeights layer;
  if (GetParam()) {
    layer.q_norm = weights::upload(draw(32), *device).value();
    layer.k_norm = weights::upload(draw(32), *device).value();
  }
  const auto q = draw(rows * 6 * 32), k = draw(rows * 3 * 32), angle = draw(rows * pairs);
  std::vector<float> cos, sin;
  for (const float a : angle) {
    cos.push_back(std::cos(3 * a));
    sin.push_back(std::sin(3 * a));
  }
  const auto run = [&](std::vector<float> x, int heads, const HeadScale& scale) {
    kernels::run(ops.norm_rope,
                 kernels::NormRopeParams{.x = x.data(),
                                         .x_stride = heads * 32,
                                         .rows = rows,
                                         .heads = heads,
                                         .dim = 32,
                                         .transform = {.weight = scale.weights,
                                                       .weight_stride = scale.head_stride,
                                                       .normalize = scale.normalize,
                                                       .cos = cos.data(),
                                                       .sin = sin.data(),
                                                       .pairs = pairs}},
                 exec);
    return x;
  };
  const QkNorms plain;
  const auto plain_q = run(q, 6, plain.q(layer)), plain_k = run(k, 3, plain.k(layer));
  for (const size_t c_heads : {size_t{1}, size_t{3}}) {
    std::vector<float> c(c_heads * 32);
    for (size_t i = 0; i < c.size(); ++i)
      c[i] = i % 32 < 16 ? std::exp(normal(random)) : c[i - 16];  // equal within a rotary pair
    auto folded = QkNorms::fold(spec, layer, c, *device);
    ASSERT_TRUE(folded.ok());
    const auto got_q = run(q, 6, folded->q(layer)), got_k = run(k, 3, folded->k(layer));
    const auto factor = [&](size_t kv_head, size_t channel) {
      return c[(c_heads == 1 ? 0 : kv_head * 32) + channel];
    };
    for (size_t i = 0; i < got_q.size(); ++i) {
      const float want = plain_q[i] / factor(i / 32 % 6 / 2, i % 32);
      ASSERT_NEAR(got_q[i], want, 2e-6f * (1 + std::fabs(want))) << i;
    }
    for (size_t i = 0; i < got_k.size(); ++i) {
      const float want = plain_k[i] * factor(i / 32 % 3, i % 32);
      ASSERT_NEAR(got_k[i], want, 2e-6f * (1 + std::fabs(want))) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Norms, QkNormsTest, testing::Bool());

}  // namespace
}  // namespace ringkeep::models
