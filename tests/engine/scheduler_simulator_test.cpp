#include "engine/serving_simulator.h"
#include "kernels/select/select.h"

namespace ringkeep::engine::testing {
namespace {

ModelConfig config_of(const std::vector<std::pair<LayerKind, int64_t>>& layers) {
  ModelConfig config;
  config.trained_context = 8192;
  for (const auto& [kind, window] : layers) {
    LayerSpec spec;
    spec.kind = kind;
    spec.window = window;
    spec.heads = 4;
    spec.kv_heads = 1;
    spec.k_dim = spec.v_dim = 64;
    config.layers.push_back(spec);
  }
  return config;
}

struct Setting {
  const char* name;
  ModelConfig config;
  const char* codec;
  int64_t ctx;
  int parallel;
  int64_t chunk;
  double share;  // of the pool that --parallel sequences would have; 0: the least
  int64_t reserve;
  int64_t start = 0;
};
void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

kv::KvPlan plan_of(const Setting& setting) {
  CacheFlags flags;
  flags.kv_bits = setting.codec;
  flags.ctx = setting.ctx;
  flags.parallel = setting.parallel;
  flags.chunk = setting.chunk;
  flags.quantized_kv_start = setting.start;
  const kernels::Ops ops = kernels::cpu_backend();
  const auto whole = kv::make_plan(setting.config, flags, ops).value();
  flags.parallel = 1;
  const auto one = kv::make_plan(setting.config, flags, ops).value();
  flags.parallel = setting.parallel;
  const auto bytes = [](const kv::KvPlan& plan) { return plan.kv_bytes + plan.kv_prefill_bytes; };
  flags.kv_memory =
      std::max(bytes(one), static_cast<size_t>(setting.share * static_cast<double>(bytes(whole))));
  auto plan = kv::make_plan(setting.config, flags, ops).value();
  RK_CHECK(plan.runnable(), "{}", kv::format_plan(plan));
  RK_CHECK(bytes(plan) <= flags.kv_memory);
  return plan;
}

// Arrivals alone and in bursts; mostly short, some as long as the context; some ask for all tokens
// there are and end early; some go away.
std::vector<Arrival> arrivals_of(size_t count, int64_t ctx, double per_second, uint32_t seed) {
  std::mt19937 random(seed);
  std::exponential_distribution<double> gap(per_second);
  std::lognormal_distribution<double> length(std::log(120.0), 1.1);
  const auto chance = [&](double p) { return std::generate_canonical<double, 32>(random) < p; };
  const auto tokens = [&] { return std::clamp<int64_t>(std::llround(length(random)), 1, ctx - 1); };
  std::vector<Arrival> arrivals;
  double time = 0;
  while (arrivals.size() < count) {
    time += gap(random);
    const size_t burst = chance(0.02) ? 40 : 1;
    for (size_t i = 0; i < burst && arrivals.size() < count; ++i) {
      Arrival a{.time = time, .prompt = chance(0.02) ? ctx * 3 / 4 : tokens(), .reply = tokens()};
      a.reply = std::min(a.reply, ctx - a.prompt + 1);
      a.limit = chance(0.3) ? ctx : std::min(ctx, a.prompt + a.reply);
      if (chance(0.1)) a.patience = std::exponential_distribution<double>(0.2)(random);
      arrivals.push_back(a);
    }
  }
  return arrivals;
}

class Serving : public ::testing::TestWithParam<Setting> {};

TEST_P(Serving, EveryRequestEndsAndNothingIsExceeded) {
  const Setting& setting = GetParam();
  const kv::KvPlan plan = plan_of(setting);
  for (const double load : {0.6, 20.0}) {
    const auto arrivals = arrivals_of(1000, setting.ctx, load, 7);
    const auto report = Simulator(plan, setting.reserve).play(arrivals);
    std::printf("%s, %.0f a second: %s\n", setting.name, load, describe(arrivals, report).c_str());
    for (size_t i = 0; i < arrivals.size(); ++i) {
      const Outcome& o = report.outcomes[i];
      ASSERT_TRUE(o.cancelled || o.tokens == arrivals[i].reply) << "request " << i;
    }
  }
}

const ModelConfig kHybrid =
    config_of({{LayerKind::sliding, 512}, {LayerKind::sliding, 512}, {LayerKind::full, 0}});
const ModelConfig kFull = config_of({{LayerKind::full, 0}, {LayerKind::full, 0}});

INSTANTIATE_TEST_SUITE_P(Caches, Serving,
                         ::testing::Values(Setting{"whole", kHybrid, "8", 2048, 16, 256, 1.0, 1024},
                                           Setting{"half", kHybrid, "4", 2048, 16, 256, 0.5, 1024},
                                           Setting{"small", kHybrid, "4", 2048, 32, 512, 0.1, 64},
                                           Setting{"least", kHybrid, "f16", 2048, 16, 64, 0.0, 16},
                                           Setting{"full", kFull, "8", 4096, 32, 512, 0.1, 256},
                                           Setting{"start", kFull, "4", 2048, 8, 128, 0.3, 100,
                                                   300},
                                           Setting{"greedy", kHybrid, "3", 4096, 24, 512, 0.2, 0}),
                         [](const auto& info) { return std::string(info.param.name); });

// A short prompt that comes after long ones begins to be answered long before they do.
TEST(Scheduling, ShortPromptsDoNotWaitForLongOnes) {
  const kv::KvPlan plan = plan_of({"", kHybrid, "8", 8192, 8, 512, 1.0, 1024});
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 4; ++i) arrivals.push_back({0.0, 8000, 10, 8192});
  arrivals.push_back({0.1, 100, 10, 8192});
  const auto report = Simulator(plan, 1024).play(arrivals);
  const double one_step = step_seconds(8, 512);
  EXPECT_LT(report.outcomes[4].first, 0.1 + 3 * one_step);
  for (int i = 0; i + 1 < 4; ++i)  // and the long ones end in their order
    EXPECT_LE(report.outcomes[static_cast<size_t>(i)].first,
              report.outcomes[static_cast<size_t>(i) + 1].first);
}

}  // namespace
}  // namespace ringkeep::engine::testing
