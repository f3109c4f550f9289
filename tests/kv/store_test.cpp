// Directed cases of the store; store_history_test.cpp has the random ones.
#include "kv/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kv/fake_ops.h"
#include "kv/layouts.h"

namespace ringkeep::kv::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A store with its backend, for one layout.
struct Bench {
  Bench(const ModelConfig& config, const CacheFlags& flags)
      : device(kernels::make_cpu_device(1)),
        ops(fake_ops()),
        exec(*device),
        plan(make_plan(config, flags, ops).value()),
        store(Store::create(plan, *device, ops).value()) {}

  KvBatch begin(SequenceId id, int64_t rows) {
    const StepEntry entry{id, 0, rows, nullptr};
    return store->begin_step({&entry, 1}).value();
  }
  void add(SequenceId id, int64_t rows) {
    while (rows > 0) {
      const int64_t n = std::min(rows, store->max_step_rows(id));
      ASSERT_GT(n, 0);
      begin(id, n);
      ASSERT_TRUE(store->commit(id, n, exec).ok());
      rows -= n;
    }
  }
  int64_t used(size_t group) const { return store->usage()[group].pages_used; }

  std::unique_ptr<kernels::Device> device;
  kernels::Ops ops;
  kernels::Exec exec;
  KvPlan plan;
  std::unique_ptr<Store> store;
};

TEST(Store, LongTextStaysAtThePlannedBytes) {
  CacheFlags flags;
  flags.kv_bits = "8";
  flags.ctx = 20000;
  Bench bench(demo_model(), flags);
  const SequenceId id = bench.store->open().value();
  int64_t most_ring = 0, most_ring_prefill = 0;
  bench.add(id, 3000);
  for (int64_t length = 3000; length < 20000; ++length) {
    const KvBatch batch = bench.begin(id, 1);
    most_ring = std::max(most_ring, bench.used(0));
    // Freed pages are used again: the memory touched does not wander.
    ASSERT_LT(batch.groups[0].slots[0], bench.plan.groups[0].pages_total * kPageTokens);
    ASSERT_TRUE(bench.store->commit(id, 1, bench.exec).ok());
  }
  EXPECT_EQ(most_ring, bench.plan.groups[0].pages_decode);
  EXPECT_EQ(bench.used(1), bench.plan.groups[1].pages_decode);
  EXPECT_LE(bench.store->bytes_used(), bench.plan.kv_bytes);
  bench.store->close(id);
  const SequenceId again = bench.store->open().value();
  bench.add(again, 1000);
  bench.begin(again, 512);
  most_ring_prefill = bench.used(0);
  // The bound allows for the worst alignment of steps and pages: one page more than here.
  EXPECT_GE(most_ring_prefill,
            bench.plan.groups[0].pages_decode + bench.plan.groups[0].pages_prefill - 1);
}

TEST(Store, RingUsesTheLowestPages) {
  CacheFlags flags;
  flags.ctx = 100000;
  flags.chunk = 1;
  Bench bench(model({sliding(100)}), flags);
  const SequenceId id = bench.store->open().value();
  for (int i = 0; i < 5000; ++i) {
    const KvBatch batch = bench.begin(id, 1);
    ASSERT_LT(batch.groups[0].slots[0] / kPageTokens, 3);
    ASSERT_TRUE(bench.store->commit(id, 1, bench.exec).ok());
  }
}

TEST(Store, KeptTokensStay) {
  CacheFlags flags;
  flags.max_kv_size = 10;
  flags.keep = 3;
  flags.chunk = 200;
  Bench bench(model({full()}), flags);
  const SequenceId id = bench.store->open().value();
  bench.add(id, 50000);
  // Window 7: the next row sees itself, six before it and the kept three.
  EXPECT_THAT(bench.store->resident(id, 0),
              ElementsAre(0, 1, 2, 49994, 49995, 49996, 49997, 49998, 49999));
}

TEST(Store, ForkSharesUntilTheFirstWrite) {
  CacheFlags flags;
  flags.parallel = 2;
  Bench bench(model({full(), full(), sliding(64)}), flags);
  const SequenceId a = bench.store->open().value();
  bench.add(a, 100);
  const SequenceId b = bench.store->fork(a).value();
  EXPECT_FALSE(bench.store->open().ok());
  EXPECT_EQ(bench.used(0), 2);
  bench.add(b, 1);
  EXPECT_EQ(bench.used(0), 3);
  EXPECT_EQ(bench.store->slot(a, 0, 63), bench.store->slot(b, 0, 63));
  EXPECT_NE(bench.store->slot(a, 0, 99), bench.store->slot(b, 0, 99));
  bench.add(a, 1);  // the last holder writes in place
  EXPECT_EQ(bench.used(0), 3);
  bench.store->close(a);
  EXPECT_EQ(bench.used(0), 2);
  bench.store->close(b);
  EXPECT_EQ(bench.store->bytes_used(), 0u);
}

TEST(Store, RollbackKeepsItsPromise) {
  CacheFlags flags;
  flags.rollback = 8;
  Bench bench(model({sliding(16)}), flags);
  const SequenceId id = bench.store->open().value();
  EXPECT_EQ(bench.store->rollback_limit(id), 0);
  bench.add(id, 1000);
  EXPECT_EQ(bench.store->rollback_limit(id), 8);
  EXPECT_TRUE(bench.store->rollback(id, 5).ok());
  EXPECT_EQ(bench.store->rollback_limit(id), 3);  // what was let go does not come back
  const Status status = bench.store->rollback(id, 4);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::runtime);
  EXPECT_THAT(status.error().message, HasSubstr("at most 3"));
  EXPECT_TRUE(bench.store->rollback(id, 3).ok());
  EXPECT_EQ(bench.store->length(id), 992);
  for (int64_t k = 992 - 15; k < 992; ++k) EXPECT_GE(bench.store->slot(id, 0, k), 0);
}

TEST(Store, QuantizedStartCutsSteps) {
  CacheFlags flags;
  flags.kv_bits = "8";
  flags.quantized_kv_start = 100;
  flags.rollback = 10;
  flags.chunk = 64;
  Bench bench(model({full()}), flags);
  EXPECT_EQ(bench.store->storage(0).size(), 2u);
  const SequenceId id = bench.store->open().value();
  bench.add(id, 64);
  EXPECT_EQ(bench.store->max_step_rows(id), 36);
  const StepEntry straddling{id, 0, 37, nullptr};
  const auto refused = bench.store->begin_step({&straddling, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("--quantized-kv-start 100"));
  bench.add(id, 35);
  EXPECT_EQ(bench.used(0), 2);
  EXPECT_EQ(bench.used(1), 0);
  bench.add(id, 1);
  EXPECT_EQ(bench.used(0), 0);
  EXPECT_EQ(bench.used(1), 2);
  EXPECT_EQ(bench.store->rollback_limit(id), 0);
  EXPECT_EQ(bench.store->max_step_rows(id), 64);
  bench.add(id, 5);
  EXPECT_EQ(bench.store->rollback_limit(id), 5);
}

TEST(Store, ValueThatIsNotFiniteEndsTheStepAlone) {
  CacheFlags flags;
  flags.kv_bits = "8";
  flags.quantized_kv_start = 3;
  Bench bench(model({full()}), flags);
  const SequenceId id = bench.store->open().value();
  bench.add(id, 2);
  const KvBatch batch = bench.begin(id, 1);
  std::vector<float> rows(8, std::nanf(""));
  const LayerStorage& place = bench.store->storage(0)[0];
  int32_t non_finite = 0;
  kernels::run(bench.ops.kv_append,
               kernels::KvAppendParams{.geometry = bench.plan.groups[0].geometry,
                                       .k = rows.data(),
                                       .v = rows.data(),
                                       .segments = batch.groups[0].segments.data(),
                                       .n_segments = 1,
                                       .slots = batch.groups[0].slots.data(),
                                       .storage = place.data,
                                       .page_stride = place.page_stride,
                                       .non_finite = &non_finite},
               bench.exec);
  const Status status = bench.store->commit(id, 1, bench.exec);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("layer 0"));
  EXPECT_EQ(bench.store->length(id), 2);
  EXPECT_EQ(bench.used(0), 1);
  EXPECT_EQ(bench.used(1), 0);
}

TEST(Store, LimitsAreErrors) {
  CacheFlags flags;
  flags.ctx = 100;
  Bench bench(model({full()}), flags);
  const SequenceId id = bench.store->open().value();
  bench.add(id, 99);
  const StepEntry entry{id, 0, 2, nullptr};
  const auto step = bench.store->begin_step({&entry, 1});
  ASSERT_FALSE(step.ok());
  EXPECT_EQ(step.error().kind, ErrorKind::runtime);
  EXPECT_THAT(step.error().message, HasSubstr("--ctx"));
  bench.add(id, 1);
  EXPECT_EQ(bench.store->max_step_rows(id), 0);
}

}  // namespace
}  // namespace ringkeep::kv::testing
