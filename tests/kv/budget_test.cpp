// The chosen mix fits, nothing better fits, and more bytes never choose worse.
#include "kv/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/select/select.h"
#include "kv/fake_ops.h"
#include "kv/layouts.h"

namespace ringkeep::kv::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

struct Layout {
  const char* name;
  ModelConfig config;
};
std::vector<Layout> layouts() {
  return {{"demo", demo_model()},
          {"full", model({full(), full()})},
          {"sliding", model({sliding(100), sliding(30)})},
          {"mixed", model({full(), sliding(200), chunked(96), shared(1), shared(0)})}};
}

CacheFlags flags_for(size_t budget, int64_t ctx) {
  CacheFlags flags;
  flags.kv_budget = budget;
  flags.ctx = ctx;
  return flags;
}

size_t bytes_of(const KvPlan& plan) { return plan.kv_bytes + plan.kv_prefill_bytes; }

// Divergence by kind, worked out apart from mix_cost().
double cost_of(const ModelConfig& config, const std::string& codec) {
  const auto cost = [](std::string_view name) {
    for (const BudgetCodec& known : budget_codecs())
      if (name == known.name) return known.cost;
    ADD_FAILURE() << name;
    return 0.0;
  };
  std::string full = codec, sliding = codec;
  if (const size_t plus = codec.find('+'); plus != codec.npos) {
    full = codec.substr(5, plus - 5);
    sliding = codec.substr(plus + 9);
  }
  double total = 0, weights = 0;
  for (const LayerSpec& layer : config.layers) {
    const LayerKind kind =
        layer.donor >= 0 ? config.layers[static_cast<size_t>(layer.donor)].kind : layer.kind;
    const double weight = kind == LayerKind::full ? kFullLayerWeight : 1.0;
    total += weight * cost(kind == LayerKind::full ? full : sliding);
    weights += weight;
  }
  return total / weights;
}

TEST(Budget, TheBestThatFits) {
  for (const auto& [name, config] : layouts())
    for (const int64_t ctx : {600, 40000}) {
      CacheFlags flags = flags_for(0, ctx);
      const size_t most = bytes_of(make_plan(config, flags, fake_ops()).value());
      double last = INFINITY;
      for (size_t budget = most / 8; budget <= most + most / 8; budget += most / 37) {
        flags.kv_budget = budget;
        const auto plan = make_plan(config, flags, fake_ops());
        ASSERT_TRUE(plan.ok());
        const double cost = plan->runnable() ? cost_of(config, plan->budget_codec) : INFINITY;
        if (plan->runnable()) {
          EXPECT_LE(bytes_of(*plan), budget) << name;
        }
        EXPECT_LE(cost, last) << name << " " << budget;  // larger budgets never choose worse
        last = cost;
        for (const BudgetCodec& full : budget_codecs())
          for (const BudgetCodec& sliding : budget_codecs()) {
            CacheFlags other = flags_for(0, ctx);
            other.kv_bits = fmt::format("full={}+sliding={}", full.name, sliding.name);
            const KvPlan rival = make_plan(config, other, fake_ops()).value();
            if (bytes_of(rival) <= budget) {
              EXPECT_LE(cost, cost_of(config, other.kv_bits) + 1e-12)
                  << name << " " << budget << ": " << plan->budget_codec << ", but "
                  << other.kv_bits << " fits";
            }
          }
      }
      EXPECT_EQ(last, 0.0) << name;  // in the end f16
    }
}

TEST(Budget, ThePlanIsThatOfTheChosenCodec) {
  const KvPlan plan = make_plan(demo_model(), flags_for(30 << 20, 32768), fake_ops()).value();
  ASSERT_TRUE(plan.runnable());
  EXPECT_THAT(plan.budget_codec, HasSubstr("full="));
  CacheFlags flags = flags_for(0, 32768);
  flags.kv_bits = plan.budget_codec;
  const KvPlan same = make_plan(demo_model(), flags, fake_ops()).value();
  EXPECT_EQ(bytes_of(plan), bytes_of(same));
  for (size_t i = 0; i < plan.layers.size(); ++i)
    EXPECT_TRUE(plan.layers[i].geometry == same.layers[i].geometry) << i;
  EXPECT_EQ(same.budget, 0u);
}

TEST(Budget, TooSmallIsRefusedWithTheBytesNeeded) {
  const KvPlan plan = make_plan(demo_model(), flags_for(1000, 32768), fake_ops()).value();
  ASSERT_THAT(plan.refusals, SizeIs(1));
  EXPECT_EQ(plan.refusals[0].layer, -1);
  EXPECT_EQ(plan.refusals[0].feature, "kv-budget");
  CacheFlags smallest = flags_for(0, 32768);
  smallest.kv_bits = "3";
  const size_t needed = bytes_of(make_plan(demo_model(), smallest, fake_ops()).value());
  EXPECT_THAT(plan.refusals[0].reason,
              AllOf(HasSubstr("1000"), HasSubstr(fmt::format("takes {} bytes", needed))));
  EXPECT_TRUE(make_plan(demo_model(), flags_for(needed, 32768), fake_ops())->runnable());
  EXPECT_FALSE(make_plan(demo_model(), flags_for(needed - 1, 32768), fake_ops())->runnable());
}

TEST(Budget, RefusalsOfTheModelStay) {
  const KvPlan plan =
      make_plan(model({full(), recurrent()}), flags_for(1 << 30, 100), fake_ops()).value();
  EXPECT_FALSE(plan.runnable());
  EXPECT_EQ(plan.refusals[0].layer, 1);
}

TEST(Budget, CodecsBesideItAreAUsageError) {
  const auto usage = [](auto change) {
    CacheFlags flags = flags_for(1 << 30, 100);
    change(flags);
    const auto plan = make_plan(demo_model(), flags, fake_ops());
    EXPECT_FALSE(plan.ok());
    return plan.ok() ? "" : plan.error().message;
  };
  EXPECT_THAT(usage([](CacheFlags& f) { f.kv_bits = "8"; }), HasSubstr("--kv-bits"));
  EXPECT_THAT(usage([](CacheFlags& f) { f.kv_key_bits = "8"; }), HasSubstr("--kv-key-bits"));
  EXPECT_THAT(usage([](CacheFlags& f) { f.kv_value_bits = "8"; }), HasSubstr("--kv-value-bits"));
  EXPECT_THAT(usage([](CacheFlags& f) { f.kv_scheme = "affine"; }), HasSubstr("--kv-scheme"));
}

// The order of the table is by cost, and at length no codec costs more than one that takes more
// bytes but for K6V4 and 5, which take the same.
TEST(Budget, OrderOfTheCodecs) {
  double cost = -1;
  size_t bytes = SIZE_MAX;
  const auto ops = kernels::cpu_backend();
  for (const BudgetCodec& codec : budget_codecs()) {
    EXPECT_GT(codec.cost, cost) << codec.name;
    cost = codec.cost;
    CacheFlags flags;
    flags.kv_bits = codec.name;
    flags.ctx = 1 << 20;  // rings and hot tiers are small beside it
    const ModelConfig config = demo_model();
    const size_t size = bytes_of(make_plan(config, flags, ops).value());
    EXPECT_LE(size, bytes) << codec.name;
    bytes = size;
  }
}

TEST(Budget, Bytes) {
  const auto bytes = [](const char* text) { return parse_bytes(text).value(); };
  EXPECT_EQ(bytes("1"), 1u);
  EXPECT_EQ(bytes("1000000"), 1000000u);
  EXPECT_EQ(bytes("512M"), 512u << 20);
  EXPECT_EQ(bytes("512MiB"), 512u << 20);
  EXPECT_EQ(bytes("512 mb"), 512000000u);
  EXPECT_EQ(bytes("1.5GiB"), size_t{3} << 29);
  EXPECT_EQ(bytes("2G"), size_t{2} << 30);
  EXPECT_EQ(bytes("2TB"), 2000000000000u);
  EXPECT_EQ(bytes("64K"), 65536u);
  EXPECT_EQ(bytes("100B"), 100u);
  for (const char* bad : {"", "G", "-1G", "0", "0.1", "1e3", "1X", "1GG", "1GiBs", "nan", "inf",
                          "0x10", "65T", "1 G B", "99999999999999999999999"})
    EXPECT_FALSE(parse_bytes(bad).ok()) << bad;
}

}  // namespace
}  // namespace ringkeep::kv::testing
