// Parts of a codec as cache flags, and what a plan says of them.
#include "eval/cases.h"

#include <gtest/gtest.h>

#include "kernels/select/select.h"
#include "kv/plan.h"

namespace ringkeep::eval {
namespace {

ModelConfig config_of(std::vector<LayerKind> kinds) {
  ModelConfig config;
  config.trained_context = 4096;
  for (const LayerKind kind : kinds)
    config.layers.push_back({.kind = kind,
                             .window = kind == LayerKind::sliding ? 512 : 0,
                             .heads = 4,
                             .kv_heads = 2,
                             .k_dim = 64,
                             .v_dim = 64});
  return config;
}

// "K of sliding, V of sliding, K of full, V of full" as bits.
std::vector<int> bits(const std::string& codec, const std::string& part) {
  const auto ops = kernels::cpu_backend();
  const auto plan = kv::make_plan(config_of({LayerKind::sliding, LayerKind::full}),
                                  flags_of_part({}, codec, part), ops)
                        .value();
  std::vector<int> out;
  for (const auto& layer : plan.layers)
    for (const auto& half : {layer.geometry.k, layer.geometry.v})
      out.push_back(half.scheme == kernels::KvScheme::f16 ? 16 : half.bits);
  return out;
}

TEST(Cases, PartsOfACodec) {
  using Bits = std::vector<int>;
  EXPECT_EQ(bits("3.5", "all"), (Bits{4, 3, 4, 3}));
  EXPECT_EQ(bits("3.5", "K"), (Bits{4, 16, 4, 16}));
  EXPECT_EQ(bits("3.5", "V"), (Bits{16, 3, 16, 3}));
  EXPECT_EQ(bits("3.5", "sliding"), (Bits{4, 3, 16, 16}));
  EXPECT_EQ(bits("3.5", "full"), (Bits{16, 16, 4, 3}));
  EXPECT_EQ(bits("full=4+sliding=8", "full"), (Bits{16, 16, 4, 4}));
  EXPECT_EQ(bits("full=4+sliding=8", "sliding"), (Bits{8, 8, 16, 16}));
  EXPECT_EQ(bits("sliding=K8V6+full=4", "K"), (Bits{8, 16, 4, 16}));
  EXPECT_EQ(bits("affine4:32", "V"), (Bits{16, 4, 16, 4}));
  EXPECT_EQ(bits("K4Vf16", "all"), (Bits{4, 16, 4, 16}));
  EXPECT_EQ(bits("Kf16V4", "all"), (Bits{16, 4, 16, 4}));
}

TEST(Cases, AreCheckedAsTheyWereWritten) {
  const auto ops = kernels::cpu_backend();
  const auto config = config_of({LayerKind::sliding, LayerKind::full});
  const auto make = [&](const std::string& codec, const std::string& only) {
    const std::vector<std::string> codecs = {codec};
    return make_cases(codecs, only, {}, false, config, ops);
  };
  EXPECT_EQ(make("9", "").error().kind, ErrorKind::usage);
  EXPECT_EQ(make("full=9+sliding=4", "sliding").error().kind, ErrorKind::usage);
  EXPECT_EQ(make("full=4+", "full").error().kind, ErrorKind::usage);
  const Case c = make("4", "sliding").value()[0];
  EXPECT_EQ(c.codec, "4");
  EXPECT_FALSE(c.k_bits.has_value());
  EXPECT_FALSE(c.is_f16);
  EXPECT_TRUE(make("f16", "").value()[0].is_f16);
  EXPECT_EQ(make("K6V4", "").value()[0].k_bits, 6);
}

TEST(Cases, AblationTellsApartWhatTheModelHas) {
  const auto ops = kernels::cpu_backend();
  const std::vector<std::string> codecs = {"f16", "4"};
  for (const bool both : {false, true}) {
    const auto config = config_of(both ? std::vector{LayerKind::sliding, LayerKind::full}
                                       : std::vector{LayerKind::full, LayerKind::full});
    const auto cases = make_cases(codecs, "", {}, false, config, ops).value();
    const auto parts = make_ablation(cases, {}, config, ops).value();
    ASSERT_EQ(parts.size(), both ? 4u : 2u);  // none of f16
    EXPECT_EQ(parts[0].part, "K");
    EXPECT_EQ(parts[1].part, "V");
    EXPECT_EQ(parts[0].codec, "4");
  }
}

}  // namespace
}  // namespace ringkeep::eval
