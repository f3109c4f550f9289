// --kv-memory: pools smaller than what --parallel sequences may come to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kv/fake_ops.h"
#include "kv/layouts.h"
#include "kv/plan.h"

namespace ringkeep::kv::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

KvPlan plan_of(const ModelConfig& config, const CacheFlags& flags) {
  auto plan = make_plan(config, flags, fake_ops());
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
  return plan.ok() ? std::move(plan).value() : KvPlan{};
}

CacheFlags with_bits(const char* bits) {
  CacheFlags flags;
  flags.kv_bits = bits;
  return flags;
}

size_t pool_bytes(const KvPlan& plan) {
  size_t bytes = 0;
  for (const GroupPlan& group : plan.groups)
    bytes += static_cast<size_t>(group.pages_total) * group.page_bytes * group.layers.size();
  return bytes;
}

// Rings keep the pages of all sequences, full layers share the rest.
TEST(PlanMemory, MemoryIsDealtToTheGroups) {
  CacheFlags flags = with_bits("8");
  flags.ctx = 32768;
  flags.parallel = 4;
  const KvPlan whole = plan_of(demo_model(), flags);
  EXPECT_EQ(pool_bytes(whole), whole.kv_bytes + whole.kv_prefill_bytes);
  EXPECT_EQ(whole.kv_memory, 0u);
  EXPECT_EQ(whole.pool_tokens, 4 * 32768);

  // 4 windows of 9 pages and 8 + 4 of a step of 512 rows, 15 layers each; 600 pages of 3 layers;
  // and a byte less than one more.
  const size_t page = 64u * 516;
  flags.kv_memory = page * (15 * (4 * 9 + 8 + 4) + 3 * 601) - 1;
  const KvPlan plan = plan_of(demo_model(), flags);
  ASSERT_TRUE(plan.runnable()) << format_plan(plan);
  EXPECT_EQ(plan.groups[0].pages_total, 4 * 9 + 8 + 4);
  EXPECT_EQ(plan.groups[1].pages_total, 600);
  EXPECT_EQ(plan.pool_tokens, 600 * 64);
  EXPECT_EQ(plan.kv_bytes, page * (15 * 4 * 9 + 3 * 600));
  EXPECT_EQ(plan.kv_prefill_bytes, page * 15 * 12);
  EXPECT_EQ(plan.groups[0].pages_decode, 9);
  EXPECT_EQ(plan.layers[17].max_tokens, 32768);  // of one sequence, as before
  EXPECT_THAT(format_plan(plan), HasSubstr("38400 tokens"));

  // Not even room for four windows beside a sequence of 32,768 tokens: two.
  flags.kv_memory = page * (15 * (2 * 9 + 8 + 2) + 3 * 512);
  const KvPlan two = plan_of(demo_model(), flags);
  EXPECT_EQ(two.groups[0].pages_total, 2 * 9 + 8 + 2);
  EXPECT_EQ(two.groups[1].pages_total, 512);
  // Memory enough for all: as without the flag.
  flags.kv_memory = pool_bytes(whole);
  EXPECT_EQ(plan_of(demo_model(), flags).groups[0].pages_total, whole.groups[0].pages_total);
  EXPECT_EQ(plan_of(demo_model(), flags).kv_memory, 0u);
}

TEST(PlanMemory, MemoryForNotEvenOneSequenceIsRefused) {
  CacheFlags flags = with_bits("8");
  flags.ctx = 32768;
  flags.parallel = 4;
  const size_t one = 64u * 516 * (15 * 17 + 3 * 512);
  flags.kv_memory = one;
  EXPECT_TRUE(plan_of(demo_model(), flags).runnable());
  flags.kv_memory = one - 1;
  const KvPlan plan = plan_of(demo_model(), flags);
  ASSERT_THAT(plan.refusals, SizeIs(1));
  EXPECT_EQ(plan.refusals[0].feature, "kv-memory");
  EXPECT_THAT(plan.refusals[0].reason,
              AllOf(HasSubstr(std::to_string(one)), HasSubstr(std::to_string(one - 1)),
                    HasSubstr("32768 tokens")));
  flags.kv_budget = 1;
  flags.kv_bits = "f16";
  EXPECT_THAT(make_plan(demo_model(), flags, fake_ops()).error().message, HasSubstr("--kv-memory"));
}

// Whatever the layers and the flags: within the memory, and one sequence always fits.
TEST(PlanMemory, MemoryHoldsForEveryLayout) {
  for (const auto& config : {model({full()}), model({sliding(100)}), model({sliding(100), full()}),
                             model({chunked(130), sliding(5000), full(), shared(2)})})
    for (const char* bits : {"f16", "4"})
      for (const int64_t start : {0, 300, 5000})
        for (const int64_t size : {0, 400}) {
          CacheFlags flags = with_bits(bits);
          flags.ctx = size > 0 ? 0 : 2000;
          flags.max_kv_size = size;
          flags.quantized_kv_start = start;
          flags.parallel = 7;
          const KvPlan whole = plan_of(config, flags);
          flags.parallel = 1;
          const size_t one = pool_bytes(plan_of(config, flags));
          flags.parallel = 7;
          for (size_t memory = one; memory < pool_bytes(whole); memory += one / 3 + 1) {
            flags.kv_memory = memory;
            const KvPlan plan = plan_of(config, flags);
            ASSERT_TRUE(plan.runnable()) << format_plan(plan);
            EXPECT_LE(pool_bytes(plan), memory);
            EXPECT_EQ(pool_bytes(plan), plan.kv_bytes + plan.kv_prefill_bytes);
            for (size_t g = 0; g < plan.groups.size(); ++g) {
              const GroupPlan& group = plan.groups[g];
              EXPECT_GE(group.pages_total, group.pages_decode + group.pages_prefill);
              EXPECT_LE(group.pages_total, whole.groups[g].pages_total);
            }
          }
        }
}

}  // namespace
}  // namespace ringkeep::kv::testing
