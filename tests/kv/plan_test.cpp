#include "kv/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kv/fake_ops.h"
#include "kv/layouts.h"
#include "kv/store.h"

namespace ringkeep::kv::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

KvPlan plan_of(const ModelConfig& config, const CacheFlags& flags) {
  auto plan = make_plan(config, flags, fake_ops());
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
  return plan.ok() ? std::move(plan).value() : KvPlan{};
}

std::string usage_of(const ModelConfig& config, const CacheFlags& flags) {
  auto plan = make_plan(config, flags, fake_ops());
  EXPECT_FALSE(plan.ok());
  if (plan.ok()) return "";
  EXPECT_EQ(plan.error().kind, ErrorKind::usage);
  return plan.error().message;
}

CacheFlags with_bits(const std::string& bits) {
  CacheFlags flags;
  flags.kv_bits = bits;
  return flags;
}

// By hand, for the fake page: 64 tokens of 1 head, 256 channels of K and V, 4 bytes of scales.
TEST(Plan, BytesOfTheDemoModel) {
  CacheFlags flags = with_bits("8");
  flags.ctx = 32768;
  const KvPlan plan = plan_of(demo_model(), flags);
  ASSERT_TRUE(plan.runnable());
  ASSERT_EQ(plan.groups.size(), 2u);
  const GroupPlan& ring = plan.groups[0];
  const GroupPlan& full = plan.groups[1];
  EXPECT_EQ(ring.layers, (std::vector<int>{0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16}));
  EXPECT_EQ(full.layers, (std::vector<int>{5, 11, 17}));
  EXPECT_EQ(ring.page_bytes, 64u * 516);
  // One-row steps: rows q - 511 ... q touch at most ceil(512 / 64) + 1 pages.
  EXPECT_EQ(ring.pages_decode, 9);
  // Steps of 512 rows: ceil((511 + 512) / 64) + 1 = 17.
  EXPECT_EQ(ring.pages_prefill, 8);
  EXPECT_EQ(full.pages_decode, 512);
  EXPECT_EQ(full.pages_prefill, 0);
  EXPECT_EQ(plan.kv_bytes, 64u * 516 * (15 * 9 + 3 * 512));
  EXPECT_EQ(plan.kv_prefill_bytes, 64u * 516 * 15 * 8);
  const LayerPlan& layer = plan.layers[0];
  EXPECT_EQ(layer.cache, CacheClass::ring);
  EXPECT_EQ(layer.bytes_per_token, 516u);
  EXPECT_EQ(layer.max_tokens, 576);
  EXPECT_EQ(layer.max_bytes, 576u * 516);
  EXPECT_EQ(plan.layers[17].max_tokens, 32768);
  EXPECT_EQ(plan.layers[17].max_bytes, 32768u * 516);

  flags.parallel = 3;
  const KvPlan three = plan_of(demo_model(), flags);
  EXPECT_EQ(three.kv_bytes, 3 * plan.kv_bytes);
  EXPECT_EQ(three.kv_prefill_bytes, 3 * plan.kv_prefill_bytes);
  EXPECT_EQ(three.layers[0].max_bytes, layer.max_bytes);
  EXPECT_EQ(three.groups[0].pages_total, 3 * 17);
}

TEST(Plan, MarginOfRollback) {
  CacheFlags flags;
  flags.ctx = 100000;
  flags.rollback = 64;
  flags.chunk = 65;
  const KvPlan plan = plan_of(model({sliding(65)}), flags);
  EXPECT_EQ(plan.groups[0].pages_decode, 4);   // ceil((64 + 1 + 64) / 64) + 1
  EXPECT_EQ(plan.groups[0].pages_prefill, 1);  // ceil((64 + 65 + 64) / 64) + 1 = 5
}

TEST(Plan, ContextOfASequence) {
  ModelConfig config = model({full()});
  EXPECT_EQ(plan_of(config, {}).ctx, 4096);
  config.trained_context = 2048;
  EXPECT_EQ(plan_of(config, {}).ctx, 2048);
  config.trained_context = 131072;
  EXPECT_EQ(plan_of(config, {}).ctx, 4096);
  CacheFlags flags;
  flags.ctx = 131072;
  EXPECT_THAT(plan_of(config, flags).warnings, IsEmpty());
  flags.ctx = 131073;
  EXPECT_THAT(plan_of(config, flags).warnings, SizeIs(1));
  EXPECT_THAT(plan_of(config, flags).warnings[0], HasSubstr("trained"));
  EXPECT_EQ(plan_of(config, flags).max_length(), 131073);
  flags.ctx = 100;
  flags.chunk = 512;
  EXPECT_EQ(plan_of(config, flags).chunk, 100);
  // A window larger than the context is as a full layer.
  config.layers.push_back(sliding(5000));
  const KvPlan plan = plan_of(config, flags);
  EXPECT_EQ(plan.groups[1].pages_decode, 2);
  EXPECT_EQ(plan.groups[1].pages_prefill, 0);
}

TEST(Plan, BoundedFullLayers) {
  CacheFlags flags;
  flags.max_kv_size = 1024;
  flags.keep = 4;
  flags.chunk = 256;
  const KvPlan plan = plan_of(model({full(), sliding(512), sliding(4096), chunked(1024)}), flags);
  ASSERT_TRUE(plan.runnable());
  EXPECT_EQ(plan.layers[0].cache, CacheClass::bounded);
  EXPECT_EQ(plan.layers[0].window, 1020);
  EXPECT_EQ(plan.layers[0].keep, 4);
  EXPECT_EQ(plan.groups[0].pages_decode, 1 + 16 + 1);
  EXPECT_EQ(plan.groups[0].pages_prefill, 1 + 20 + 1 - 18);
  EXPECT_EQ(plan.layers[1].window, 512);
  EXPECT_EQ(plan.layers[2].window, 1024);
  EXPECT_EQ(plan.layers[2].keep, 0);
  EXPECT_EQ(plan.layers[3].chunk_size, 1024);
  EXPECT_GT(plan.max_length(), 1 << 30);

  const KvPlan cut = plan_of(model({full(), chunked(1025)}), flags);
  ASSERT_THAT(cut.refusals, SizeIs(1));
  EXPECT_EQ(cut.refusals[0].layer, 1);
  EXPECT_EQ(cut.refusals[0].feature, "max-kv-size");
}

TEST(Plan, SizeMustExceedKeep) {
  CacheFlags flags;
  flags.max_kv_size = 64;
  for (const int64_t keep : {64, 65, 1000}) {
    flags.keep = keep;
    const KvPlan plan = plan_of(demo_model(), flags);
    ASSERT_THAT(plan.refusals, SizeIs(1));
    EXPECT_EQ(plan.refusals[0].layer, -1);
    const Error error = refusal_error(plan);
    EXPECT_EQ(error.kind, ErrorKind::refused);
    EXPECT_THAT(error.message,
                AllOf(HasSubstr("--max-kv-size 64"), HasSubstr(fmt::format("--keep {}", keep))));
  }
  flags.keep = 63;
  EXPECT_TRUE(plan_of(demo_model(), flags).runnable());
}

TEST(Plan, FlagsThatMeanNothing) {
  CacheFlags flags;
  flags.keep = 4;
  EXPECT_THAT(usage_of(demo_model(), flags),
              AllOf(HasSubstr("--keep 4"), HasSubstr("--max-kv-size")));
  const auto with = [](auto member, auto value) {
    CacheFlags changed;
    changed.*member = value;
    return changed;
  };
  EXPECT_THAT(usage_of(demo_model(), with(&CacheFlags::ctx, -1)), HasSubstr("--ctx -1"));
  EXPECT_THAT(usage_of(demo_model(), with(&CacheFlags::ctx, INT64_MAX)), HasSubstr("--ctx"));
  EXPECT_THAT(usage_of(demo_model(), with(&CacheFlags::max_kv_size, -5)),
              HasSubstr("--max-kv-size"));
  EXPECT_THAT(usage_of(demo_model(), with(&CacheFlags::keep, -5)), HasSubstr("--keep"));
  EXPECT_THAT(usage_of(demo_model(), with(&CacheFlags::chunk, 0)), HasSubstr("--chunk"));
  EXPECT_THAT(usage_of(demo_model(), with(&CacheFlags::parallel, 0)), HasSubstr("--parallel"));
  EXPECT_THAT(usage_of(demo_model(), with(&CacheFlags::rollback, -1)), HasSubstr("rollback"));
  EXPECT_THAT(usage_of(demo_model(), with(&CacheFlags::quantized_kv_start, -1)),
              HasSubstr("--quantized-kv-start"));
  EXPECT_THAT(usage_of(demo_model(), with_bits("7")), HasSubstr("--kv-bits"));
}

// The layer types of Qwen3-Next: three linear-attention layers, then a full one.
ModelConfig hybrid_model() {
  std::vector<LayerSpec> layers;
  for (int i = 0; i < 12; ++i) layers.push_back(i % 4 == 3 ? full() : recurrent());
  return model(layers);
}

TEST(Plan, RecurrentLayersAreRefusedByName) {
  for (const int64_t start : {0, 5000}) {
    CacheFlags flags = with_bits("8");
    flags.quantized_kv_start = start;
    const KvPlan plan = plan_of(hybrid_model(), flags);
    EXPECT_FALSE(plan.runnable());
    for (const int index : {0, 1, 2, 4, 5, 6, 8, 9, 10})
      for (const char* feature : {"run", "quantize"}) {
        const auto found =
            std::find_if(plan.refusals.begin(), plan.refusals.end(), [&](const Refusal& refusal) {
              return refusal.layer == index && refusal.feature == feature;
            });
        ASSERT_NE(found, plan.refusals.end()) << index << feature;
        EXPECT_EQ(found->cache, "recurrent");
        EXPECT_THAT(found->reason, HasSubstr("linear_attention"));
      }
    EXPECT_THAT(plan.refusals, SizeIs(18));
    const std::string message = refusal_error(plan).message;
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 9) << message;
    EXPECT_THAT(format_plan(plan), HasSubstr("refused: layer 10 (recurrent): quantize"));
  }
  EXPECT_THAT(plan_of(hybrid_model(), {}).refusals, SizeIs(9));
}

TEST(Plan, LatentAndCachelessLayersAreRefusedByName) {
  LayerSpec latent = full(), plain = full();
  latent.kind = LayerKind::latent;
  plain.kind = LayerKind::cacheless;
  plain.note = "mlp";
  const KvPlan plan = plan_of(model({full(), latent, plain}), with_bits("8"));
  const auto& refusals = plan.refusals;
  ASSERT_THAT(refusals, SizeIs(3));  // run and quantize; a layer without a cache: run alone
  EXPECT_EQ(refusals[0].layer, 1);
  EXPECT_EQ(refusals[0].cache, "latent");
  EXPECT_THAT(refusals[0].reason, HasSubstr("multi-head latent attention"));
  EXPECT_EQ(refusals[1].feature, "quantize");
  EXPECT_EQ(refusals[2].layer, 2);
  EXPECT_EQ(refusals[2].cache, "none");
  EXPECT_EQ(refusals[2].reason, "'mlp' layer: layers without attention are not supported yet");
}

TEST(Plan, SharedLayersHoldNothing) {
  const KvPlan plan = plan_of(model({sliding(512), full(), shared(0), shared(1)}), with_bits("4"));
  ASSERT_TRUE(plan.runnable());
  EXPECT_EQ(plan.groups.size(), 4u);
  for (const int index : {2, 3}) {
    const LayerPlan& layer = plan.layers[static_cast<size_t>(index)];
    const LayerPlan& donor = plan.layers[static_cast<size_t>(index - 2)];
    EXPECT_EQ(layer.group, donor.group);
    EXPECT_GE(layer.hot_group, 0);
    EXPECT_EQ(layer.hot_group, donor.hot_group);
    EXPECT_EQ(layer.window, donor.window);
    EXPECT_EQ(layer.geometry, donor.geometry);
    EXPECT_EQ(layer.max_bytes, 0u);
    EXPECT_EQ(layer.bytes_per_token, 0u);
  }
  EXPECT_EQ(plan.groups[0].layers, std::vector<int>{0});
  const KvPlan alone = plan_of(model({sliding(512), full()}), with_bits("4"));
  EXPECT_EQ(plan.kv_bytes, alone.kv_bytes);
}

TEST(Plan, DonorsThatCannotGive) {
  LayerSpec other = shared(0);
  other.k_dim = 16;
  for (const auto& layers : {std::vector{full(), shared(0), shared(1)},
                             {full(), shared(7)},
                             {full(), shared(-1)},
                             {full(), shared(1)},
                             {shared(1), full()},
                             {full(), other}}) {
    const KvPlan plan = plan_of(model(layers), {});
    ASSERT_THAT(plan.refusals, SizeIs(1));
    EXPECT_EQ(plan.refusals[0].feature, "share");
  }
  const KvPlan plan = plan_of(model({recurrent(), shared(0)}), {});
  ASSERT_THAT(plan.refusals, SizeIs(2));
  EXPECT_THAT(plan.refusals[1].reason, HasSubstr("recurrent"));
}

TEST(Plan, GroupsThatDoNotDivide) {
  ModelConfig config = model({full(), sliding(64)});
  config.layers[1].k_dim = 96;
  config.layers[1].v_dim = 64;
  const KvPlan refused = plan_of(config, with_bits("affine4:64"));
  ASSERT_THAT(refused.refusals, SizeIs(2));  // 8 of both halves of layer 0, 96 of layer 1
  EXPECT_THAT(refused.refusals[0].reason, HasSubstr("K and V head size 8 "));
  EXPECT_EQ(refused.refusals[1].layer, 1);
  EXPECT_EQ(refused.refusals[1].feature, "head size");
  EXPECT_THAT(refused.refusals[1].reason,
              AllOf(HasSubstr("96"), HasSubstr("64"), HasSubstr("32 would do")));

  CacheFlags flags = with_bits("8");
  flags.kv_group_size = 64;
  EXPECT_FALSE(plan_of(config, flags).runnable());
  flags.kv_group_size = 8;
  EXPECT_TRUE(plan_of(config, flags).runnable());

  flags = with_bits("4");
  flags.kv_scheme = "affine";
  const KvPlan chosen = plan_of(config, flags);
  ASSERT_TRUE(chosen.runnable());
  EXPECT_EQ(chosen.layers[0].geometry.k.group, 8);
  EXPECT_EQ(chosen.layers[1].geometry.k.group, 32);
  EXPECT_EQ(chosen.layers[1].geometry.v.group, 64);
  ASSERT_THAT(chosen.warnings, SizeIs(2));
  EXPECT_THAT(chosen.warnings[0],
              AllOf(HasSubstr("groups of 8 for K and V"), HasSubstr("layers 0")));
  EXPECT_THAT(chosen.warnings[1], AllOf(HasSubstr("groups of 32 for K"), HasSubstr("layers 1")));

  // The hint is a group that the backend takes.
  kernels::Ops coarse = fake_ops();
  coarse.kv_supported = [](const KvGeometry& geometry) -> std::string {
    return geometry.k.group % 32 != 0 ? "groups must be multiples of 32" : "";
  };
  config.layers = {full()};
  config.layers[0].k_dim = config.layers[0].v_dim = 80;
  const auto hint = make_plan(config, with_bits("affine4:64"), coarse);
  EXPECT_THAT(hint->refusals[0].reason, HasSubstr("use the hadamard scheme"));
  const auto own = make_plan(config, with_bits("4:8"), coarse);
  ASSERT_THAT(own->refusals, SizeIs(1));
  EXPECT_EQ(own->refusals[0].feature, "quantize");

  config = model({full(), sliding(64)});
  config.layers[1].k_dim = 100;  // a head size that the backend does not know
  const KvPlan backend = plan_of(config, with_bits("8"));
  ASSERT_THAT(backend.refusals, SizeIs(1));
  EXPECT_THAT(backend.refusals[0].reason, HasSubstr("multiples of 8"));
}

TEST(Plan, QuantizedStartCountsBothCopies) {
  CacheFlags flags = with_bits("full=f16+sliding=8");
  flags.ctx = 4096;
  flags.quantized_kv_start = 1000;
  const KvPlan plan = plan_of(model({sliding(512), full(), sliding(512)}), flags);
  ASSERT_EQ(plan.groups.size(), 3u);
  const GroupPlan& before = plan.groups[0];
  const GroupPlan& after = plan.groups[1];
  EXPECT_TRUE(before.before_start);
  EXPECT_EQ(before.geometry.k, kernels::KvCodec{});
  EXPECT_EQ(before.layers, after.layers);
  EXPECT_EQ(before.pages_decode, 9);
  EXPECT_EQ(before.pages_prefill, 16 - 9);  // never more than ceil(1000 / 64)
  EXPECT_EQ(after.pages_decode, 9);
  EXPECT_EQ(after.pages_prefill, 8);
  EXPECT_EQ(plan.layers[0].f16_group, 0);
  EXPECT_EQ(plan.layers[0].group, 1);
  EXPECT_EQ(plan.layers[1].f16_group, -1);
  EXPECT_EQ(plan.layers[0].max_bytes, 9 * (before.page_bytes + after.page_bytes));
  EXPECT_EQ(plan.kv_bytes, 2 * plan.layers[0].max_bytes + plan.layers[1].max_bytes);

  flags.quantized_kv_start = 4096;  // never reached
  const KvPlan never = plan_of(model({sliding(512)}), flags);
  EXPECT_EQ(never.groups[1].pages_total, 0);
  EXPECT_THAT(never.warnings, SizeIs(1));
  flags.kv_bits = "f16";
  const KvPlan none = plan_of(model({sliding(512)}), flags);
  EXPECT_EQ(none.quantized_start, 0);
  EXPECT_EQ(none.groups.size(), 1u);
  EXPECT_THAT(none.warnings, SizeIs(1));
}

// By hand, for the fake page: a token of 256 channels of K and V at 4 bits is 260 bytes, at 8 bits
// 516, as halves 1028.
TEST(Plan, HotTierOfTheDemoModel) {
  CacheFlags flags = with_bits("full=4+sliding=8");
  flags.ctx = 32768;
  const KvPlan plan = plan_of(demo_model(), flags);
  ASSERT_EQ(plan.groups.size(), 3u);
  const GroupPlan& hot = plan.groups[2];
  EXPECT_TRUE(hot.hot);
  EXPECT_EQ(hot.layers, (std::vector<int>{5, 11, 17}));
  EXPECT_EQ(hot.page_bytes, 64u * 516);
  EXPECT_EQ(hot.pages_decode, 2);
  EXPECT_EQ(hot.pages_prefill, 8);  // 2 + ceil(511 / 64) in all
  EXPECT_EQ(plan.layers[0].hot_group, -1);
  const LayerPlan& layer = plan.layers[5];
  EXPECT_EQ(layer.hot_group, 2);
  EXPECT_EQ(layer.bytes_per_token, 260u);
  EXPECT_EQ(layer.max_tokens, 32768);
  EXPECT_EQ(layer.max_bytes, 32768u * 260 + 128 * 516);
  EXPECT_EQ(plan.kv_bytes, 15 * plan.layers[0].max_bytes + 3 * layer.max_bytes);
  EXPECT_EQ(plan.kv_prefill_bytes, 64u * 516 * (15 * 8 + 3 * 8));

  flags.kv_hot = "f16";
  flags.rollback = 60;
  const KvPlan halves = plan_of(demo_model(), flags);
  EXPECT_EQ(halves.groups[2].page_bytes, 64u * 1028);
  EXPECT_EQ(halves.groups[2].pages_decode, 3);
  EXPECT_EQ(halves.groups[2].pages_prefill, 8);  // 2 + ceil((60 + 511) / 64) = 11 in all
  flags.kv_hot = "none";
  const KvPlan none = plan_of(demo_model(), flags);
  EXPECT_EQ(none.groups.size(), 2u);
  EXPECT_EQ(none.layers[5].max_bytes, 32768u * 260);
  EXPECT_THAT(none.warnings, IsEmpty());
}

TEST(Plan, HotCodecsOfEachHalf) {
  using kernels::KvScheme;
  const auto hot = [](const std::string& bits, const std::string& hot) {
    CacheFlags flags = with_bits(bits);
    flags.kv_hot = hot;
    const KvPlan plan = plan_of(model({full()}), flags);
    if (plan.layers[0].hot_group < 0) return std::string("no tier");
    const KvGeometry& g = plan.groups[static_cast<size_t>(plan.layers[0].hot_group)].geometry;
    const auto text = [](const kernels::KvCodec& codec) {
      return describe(codec) + (codec.halves() && codec.rotated() ? " rotated" : "");
    };
    return fmt::format("K {} V {}", text(g.k), text(g.v));
  };
  EXPECT_EQ(hot("4", "8"), "K 8 V 8");
  EXPECT_EQ(hot("4:8", "8"), "K 8:8 V 8:8");
  EXPECT_EQ(hot("4:8", "f16"), "K f16 rotated V f16 rotated");
  EXPECT_EQ(hot("K8V4", "8"), "K 8 V 8");
  EXPECT_EQ(hot("K8V4", "f16"), "K 8 V f16 rotated");
  EXPECT_EQ(hot("Kf16V4", "8"), "K f16 V 8");
  EXPECT_EQ(hot("Kaffine4:8V4", "8"), "K affine4:8 V 8");
  for (const char* bits : {"f16", "8", "affine4:8", "K8Vf16", "Kf16Vaffine2:8"})
    for (const char* tier : {"8", "f16"}) EXPECT_EQ(hot(bits, tier), "no tier") << bits;
  EXPECT_EQ(hot("4", "none"), "no tier");
}

TEST(Plan, HotTierWithoutEffectIsTold) {
  const auto warnings = [](const std::string& bits, const ModelConfig& config,
                           std::optional<std::string> hot) {
    CacheFlags flags = with_bits(bits);
    flags.kv_hot = std::move(hot);
    return plan_of(config, flags).warnings;
  };
  for (const char* bits : {"f16", "8", "affine4:8"}) {
    EXPECT_THAT(warnings(bits, model({full()}), std::nullopt), IsEmpty());
    EXPECT_THAT(warnings(bits, model({full()}), "none"), IsEmpty());
    const auto told = warnings(bits, model({full()}), "8");
    ASSERT_THAT(told, SizeIs(1)) << bits;
    EXPECT_THAT(told[0], AllOf(HasSubstr("--kv-hot 8"), HasSubstr("no effect"), HasSubstr(bits)));
  }
  EXPECT_THAT(warnings("full=8+sliding=4", model({full()}), "f16"), SizeIs(1));
  EXPECT_THAT(warnings("full=8+sliding=4", model({full(), sliding(9)}), "f16"), IsEmpty());
  CacheFlags flags = with_bits("4");
  flags.kv_hot = "16";
  EXPECT_THAT(usage_of(demo_model(), flags), AllOf(HasSubstr("--kv-hot 16"), HasSubstr("f16")));
}

TEST(Plan, HotTierAfterTheQuantizedStart) {
  CacheFlags flags = with_bits("4");
  flags.ctx = 1000;
  flags.quantized_kv_start = 100;
  const KvPlan plan = plan_of(model({full()}), flags);
  ASSERT_EQ(plan.groups.size(), 3u);
  EXPECT_EQ(plan.layers[0].max_bytes, 2 * plan.groups[0].page_bytes +
                                          16 * plan.groups[1].page_bytes +
                                          2 * plan.groups[2].page_bytes);
  flags.quantized_kv_start = 1000;
  EXPECT_EQ(plan_of(model({full()}), flags).groups[2].pages_total, 0);
}

TEST(Plan, WarnsOfTwoBitKeys) {
  EXPECT_THAT(plan_of(demo_model(), with_bits("2")).warnings, SizeIs(1));
  EXPECT_THAT(plan_of(demo_model(), with_bits("full=K2V4+sliding=8")).warnings, SizeIs(1));
  EXPECT_THAT(plan_of(demo_model(), with_bits("2.5")).warnings, IsEmpty());
}

TEST(Plan, HostileConfigurations) {
  for (const int bad : {0, -1, INT32_MIN, INT32_MAX}) {
    ModelConfig config = model({full()});
    config.layers[0].kv_heads = bad;
    EXPECT_FALSE(plan_of(config, {}).runnable()) << bad;
    config = model({full()});
    config.layers[0].k_dim = bad;
    EXPECT_FALSE(plan_of(config, with_bits("8")).runnable()) << bad;
  }
  for (const int64_t window : {int64_t{0}, int64_t{-1}, INT64_MIN})
    EXPECT_FALSE(plan_of(model({sliding(window), chunked(window)}), {}).runnable());
  EXPECT_TRUE(plan_of(model({sliding(INT64_MAX), chunked(INT64_MAX)}), {}).runnable());
  CacheFlags flags;
  flags.ctx = kMaxIndices;
  flags.parallel = 65536;
  EXPECT_FALSE(plan_of(demo_model(), flags).runnable());
  EXPECT_FALSE(plan_of(model({}), {}).runnable());
}

// Every layout with every codec and bound is runnable, and then the store opens with it, or
// refused.
TEST(Plan, NoThirdOutcome) {
  const std::vector<std::vector<LayerSpec>> layouts = {
      {full()},
      {sliding(1)},
      {sliding(512)},
      {chunked(100)},
      {full(), shared(0)},
      {sliding(5), shared(0)},
      {chunked(7), shared(0)},
      {recurrent()},
      {full(), recurrent()},
      {recurrent(), shared(0)},
      {full(), sliding(64), chunked(48), shared(1), shared(2)}};
  const auto device = kernels::make_cpu_device(1);
  const auto ops = fake_ops();
  int runnable = 0, refused = 0;
  for (const auto& layers : layouts)
    for (const int dim : {8, 24, 96, 100, 256})
      for (const char* bits :
           {"f16", "8", "6", "5", "4", "3", "2", "K6V4", "5.5", "4.5", "3.5", "2.5", "affine4:64",
            "affine8:32", "8:64", "full=4+sliding=8", "Kf16V4"})
        for (const int64_t start : {0, 100, 100000})
          for (const int64_t max_size : {0, 100}) {
            CacheFlags flags = with_bits(bits);
            flags.quantized_kv_start = start;
            flags.max_kv_size = max_size;
            flags.parallel = 2;
            flags.rollback = 3;
            ModelConfig config = model(layers);
            bool recurrent_layer = false;
            for (LayerSpec& spec : config.layers) {
              recurrent_layer |= spec.kind == LayerKind::recurrent;
              if (spec.kind != LayerKind::recurrent) spec.k_dim = spec.v_dim = dim;
            }
            const KvPlan plan = plan_of(config, flags);
            ASSERT_EQ(plan.layers.size(), layers.size());
            EXPECT_FALSE(plan.runnable() && (recurrent_layer || dim == 100));
            EXPECT_THAT(format_plan(plan), Not(IsEmpty()));
            if (!plan.runnable()) {
              ++refused;
              continue;
            }
            ++runnable;
            for (const LayerPlan& layer : plan.layers) ASSERT_GE(layer.group, 0);
            auto store = Store::create(plan, *device, ops);
            ASSERT_TRUE(store.ok());
            kernels::Exec exec(*device);
            const SequenceId id = (*store)->open().value();
            const StepEntry entry{id, 0, (*store)->max_step_rows(id), nullptr};
            ASSERT_TRUE((*store)->begin_step({&entry, 1}).ok());
            ASSERT_TRUE((*store)->commit(id, entry.rows, exec).ok());
            EXPECT_LE((*store)->bytes_used(), plan.kv_bytes);
          }
  EXPECT_GT(runnable, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(Plan, TableForAPerson) {
  CacheFlags flags = with_bits("full=4+sliding=8");
  flags.ctx = 8192;
  const std::string text = format_plan(plan_of(demo_model(), flags));
  EXPECT_THAT(text, AllOf(HasSubstr("0-4"), HasSubstr("sliding"), HasSubstr("ring"),
                          HasSubstr("512"), HasSubstr("12-16"), HasSubstr("ctx 8192")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 6 + 1 + 2) << text;
}

TEST(Caps, EveryCellHasAnAnswer) {
  for (int c = 0; c < 8; ++c)
    for (int f = 0; f < 8; ++f) {
      const auto cache = static_cast<CacheClass>(c);
      const auto feature = static_cast<Feature>(f);
      EXPECT_STRNE(cache_class_name(cache), "");
      EXPECT_STRNE(feature_name(feature), "");
      for (const CacheClass unsupported : {CacheClass::recurrent, CacheClass::latent})
        EXPECT_FALSE(cache == unsupported && unsupported_reason(cache, feature).empty());
    }
  for (const CacheClass cache : {CacheClass::full, CacheClass::bounded, CacheClass::ring,
                                 CacheClass::chunked, CacheClass::shared})
    for (const Feature feature : {Feature::run, Feature::quantize, Feature::batch,
                                  Feature::rollback, Feature::reuse, Feature::save})
      EXPECT_EQ(unsupported_reason(cache, feature), "");
}

}  // namespace
}  // namespace ringkeep::kv::testing
