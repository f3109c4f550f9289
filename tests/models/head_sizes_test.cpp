// Every head size with every width and group: it runs and stays near the f16 cache, or the plan
// refuses it and names the size, the group and a group that would do. Nothing else.
#include <gtest/gtest.h>

#include "kv/codec_flags.h"
#include "runner.h"

namespace ringkeep::testing {
namespace {

constexpr int64_t kWindow = 40;
// Bits and the largest distance from f16, half as much again as seen over all sizes (random keys
// are far apart, so that attention is sharp and errors large). Unrelated logits are at 1.4.
constexpr std::pair<int, double> kWidths[] = {{2, 1.2},  {3, 0.85}, {4, 0.5},
                                              {5, 0.28}, {6, 0.16}, {8, 0.05}};

struct Heads {
  int k_dim, v_dim;
};

class HeadSizes : public ::testing::TestWithParam<Heads> {};

// Root mean square of the difference, in units of that of the expected logits.
double distance(const Logits& found, const Logits& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < found.size(); ++i)
    for (size_t j = 0; j < kVocab; ++j) {
      error += std::pow(found[i][j] - expected[i][j], 2);
      size += std::pow(expected[i][j], 2);
    }
  return std::sqrt(error / size);  // NaN fails every comparison
}

Logits logits_of(const TinyModel& tiny, const CacheFlags& flags, size_t chunk) {
  Runner runner(tiny, flags);
  std::mt19937 random(4);
  return runner.feed(runner.store().open().value(), random_tokens(100, random), chunk);
}

TEST_P(HeadSizes, RunNearF16OrAreRefusedByName) {
  const auto [k_dim, v_dim] = GetParam();
  const TinyModel tiny({layer_of(LayerKind::sliding, kWindow), layer_of(LayerKind::full)}, k_dim,
                       v_dim);
  const ModelConfig config = tiny.open().config;
  const kernels::Ops ops = kernels::cpu_backend();
  CacheFlags flags;
  flags.ctx = 256;
  flags.chunk = 64;
  const Logits f16 = logits_of(tiny, flags, 64);
  for (const auto& [bits, tolerance] : kWidths) {
    std::vector<std::string> codecs = {std::to_string(bits)};
    for (const int group : {32, 64, 128}) codecs.push_back(fmt::format("affine{}:{}", bits, group));
    for (const std::string& codec : codecs) {
      flags.kv_bits = codec;
      const size_t colon = codec.find(':');
      const int group = colon == std::string::npos ? 1 : std::stoi(codec.substr(colon + 1));
      const kv::KvPlan plan = kv::make_plan(config, flags, ops).value();
      if (k_dim % group != 0 || v_dim % group != 0) {
        const bool alike = k_dim == v_dim;  // told once for both halves
        const size_t told = alike ? 1 : (k_dim % group != 0) + (v_dim % group != 0);
        ASSERT_EQ(plan.refusals.size(), 2 * told) << codec;  // of two layers
        for (const kv::Refusal& refusal : plan.refusals) {
          EXPECT_EQ(refusal.reason.starts_with("K and V "), alike) << refusal.reason;
          const int dim = refusal.reason.starts_with("K") ? k_dim : v_dim;
          EXPECT_NE(refusal.reason.find(fmt::format("head size {} ", dim)), std::string::npos)
              << refusal.reason;
          EXPECT_NE(refusal.reason.find(fmt::format("group size {};", group)), std::string::npos)
              << refusal.reason;
          const size_t at = refusal.reason.find("a group of ");
          ASSERT_NE(at, std::string::npos) << refusal.reason;
          const int other = std::stoi(refusal.reason.substr(at + 11));
          EXPECT_EQ(dim % other, 0);
          if (k_dim == v_dim) {
            flags.kv_bits = fmt::format("affine{}:{}", bits, other);
            EXPECT_TRUE(kv::make_plan(config, flags, ops)->runnable());
          }
        }
        continue;
      }
      ASSERT_TRUE(plan.runnable()) << codec << ": " << plan.refusals.front().reason;
      const Logits whole = logits_of(tiny, flags, 64);
      EXPECT_LT(distance(whole, f16), tolerance) << codec;
      EXPECT_TRUE(whole == logits_of(tiny, flags, 7)) << codec;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, HeadSizes,
                         ::testing::Values(Heads{64, 64}, Heads{80, 80}, Heads{96, 96},
                                           Heads{112, 112}, Heads{128, 128}, Heads{192, 192},
                                           Heads{256, 256}, Heads{512, 512}, Heads{192, 128}),
                         [](const auto& info) {
                           return fmt::format("K{}V{}", info.param.k_dim, info.param.v_dim);
                         });

}  // namespace
}  // namespace ringkeep::testing
