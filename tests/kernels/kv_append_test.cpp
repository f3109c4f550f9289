// The fused append against its parts: norm, RoPE, then an append of what they make.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/kv_fixture.h"

namespace ringkeep::kernels::testing {
namespace {

struct Backend {
  std::string name;
  Ops ops;
};

std::vector<Backend> backends() {
  Backend ref{"ref", ref_ops()}, cpu{"cpu", {}};
  ref::add_dense_kernels(ref.ops);
  set_host_kv_layout(cpu.ops);
  cpu::add_kv_kernels(cpu.ops);
  cpu::add_dense_kernels(cpu.ops);
  if (!cpu.ops.kv_append.front().supports({})) return {ref};  // a machine without vectors
  return {ref, cpu};
}

bool same_bytes(const Buffer& a, const Buffer& b) {
  return a.size() == b.size() && std::equal(a.data(), a.data() + a.size(), b.data());
}

TEST(KvAppend, NormsAndRotatesKOnTheWayIn) {
  constexpr int64_t kTokens = 70;
  const auto device = make_cpu_device(2);
  Exec exec{*device};
  for (const Backend& backend : backends())
    for (const int dim : {64, 80, 96, 256})
      for (const KvCodec& k_codec : {kF16, h(8), h(4), affine(4, 16)}) {
        const KvGeometry g{3, dim, 64, k_codec, h(8)};
        std::optional<KvGeometry> hot;
        if (k_codec.bits == 4 && k_codec.rotated()) hot = hot_of(g, 8);
        const int64_t pairs = dim / 4;  // half of the channels
        const auto angles = gaussian(kTokens * pairs, 5);
        std::vector<float> cos, sin;
        for (const float angle : angles) {
          cos.push_back(std::cos(angle));
          sin.push_back(std::sin(angle));
        }
        const auto weight = gaussian(3 * dim, 6);
        const HeadTransform rope{.cos = cos.data(), .sin = sin.data(), .pairs = pairs};
        HeadTransform normed = rope;
        normed.weight = weight.data();
        HeadTransform scaled = normed;
        scaled.normalize = false;
        scaled.weight_stride = dim;
        HeadTransform norm_only = normed;
        norm_only.cos = norm_only.sin = nullptr;
        const auto factors = gaussian(kTokens, 7);
        HeadTransform by_row = rope;
        by_row.row_scale = factors.data();
        for (const HeadTransform& transform :
             {HeadTransform{}, rope, normed, scaled, norm_only, by_row}) {
          Cache fused(backend.ops, exec, g, kTokens, 3, hot);
          Cache parts(backend.ops, exec, g, kTokens, 3, hot);
          fused.append(backend.ops.kv_append, exec, 0, kTokens, transform);
          run(backend.ops.norm_rope,
              NormRopeParams{.x = parts.k.data(),
                             .x_stride = 3 * dim,
                             .rows = kTokens,
                             .heads = 3,
                             .dim = dim,
                             .transform = transform},
              exec);
          parts.append(backend.ops.kv_append, exec, 0, kTokens);
          const std::string cell = backend.name + " " + name(g);
          ASSERT_TRUE(same_bytes(fused.storage, parts.storage)) << cell;
          ASSERT_TRUE(same_bytes(fused.hot_storage, parts.hot_storage)) << cell;
        }
      }
}

}  // namespace
}  // namespace ringkeep::kernels::testing
