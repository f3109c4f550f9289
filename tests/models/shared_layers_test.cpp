// Layers that read another layer's cache: they hold nothing, write nothing, and see what the donor
// wrote, alone and in ragged batches.
#include <gtest/gtest.h>

#include "runner.h"

namespace ringkeep::testing {
namespace {

constexpr int64_t kWindow = 40;

TinyModel borrowing() {
  return TinyModel({layer_of(LayerKind::sliding, kWindow), layer_of(LayerKind::full),
                    layer_of(LayerKind::sliding, kWindow), layer_of(LayerKind::full),
                    layer_of(LayerKind::shared, 0, 2), layer_of(LayerKind::shared, 0, 3)});
}

CacheFlags flags_of(const char* codec) {
  CacheFlags flags;
  flags.kv_bits = codec;
  flags.ctx = 512;
  flags.chunk = 128;
  flags.parallel = 2;
  return flags;
}

// K and V of a row as the donor's weights make them, wherever a later layer reads them: equal in a
// model without the shared layers.
TEST(SharedLayers, LeaveTheDonorsRowsAlone) {
  std::mt19937 random(6);
  const Tokens tokens = random_tokens(20, random);
  const auto rows_of = [&](const TinyModel& tiny) {
    Runner runner(tiny, flags_of("f16"));
    const auto sequence = runner.store().open().value();
    runner.feed(sequence, tokens, 20);
    const auto storage = runner.store().storage(2).back();
    const auto& geometry =
        runner.store().plan().groups[static_cast<size_t>(storage.group)].geometry;
    std::vector<int64_t> slots;
    for (int64_t i = 0; i < 20; ++i)
      slots.push_back(runner.store().slot(sequence, storage.group, i));
    std::vector<float> k(20 * 2 * 64), v(k.size());
    kernels::run(runner.ops().kv_read,
                 kernels::KvReadParams{.geometry = geometry,
                                       .storage = storage.data,
                                       .page_stride = storage.page_stride,
                                       .slots = slots.data(),
                                       .n = 20,
                                       .k = k.data(),
                                       .v = v.data()},
                 runner.exec());
    k.insert(k.end(), v.begin(), v.end());
    return k;
  };
  const TinyModel four({layer_of(LayerKind::sliding, kWindow), layer_of(LayerKind::full),
                        layer_of(LayerKind::sliding, kWindow), layer_of(LayerKind::full)});
  EXPECT_TRUE(rows_of(borrowing()) == rows_of(four));  // weights of the first layers are the same
}

TEST(SharedLayers, RaggedBatchEqualsSingleRuns) {
  const TinyModel tiny = borrowing();
  for (const char* codec : {"f16", "4"}) {
    std::mt19937 random(5);
    const Tokens a = random_tokens(5 + 60, random), b = random_tokens(kWindow + 37 + 60, random);
    Runner batch(tiny, flags_of(codec), 2), single(tiny, flags_of(codec));
    const auto first = batch.store().open().value(), second = batch.store().open().value();
    Logits of_a = batch.feed(first, std::span(a).first(5), 128);
    Logits of_b = batch.feed(second, std::span(b).first(kWindow + 37), 128);
    for (size_t step = 0; step < 60; step += 3) {
      const auto rows = batch.append({{first, std::span(a).subspan(5 + step, 3)},
                                      {second, std::span(b).subspan(kWindow + 37 + step, 3)}});
      of_a.insert(of_a.end(), rows.begin(), rows.begin() + 3);
      of_b.insert(of_b.end(), rows.begin() + 3, rows.end());
      batch.commit(first, 3);
      batch.commit(second, 3);
    }
    EXPECT_TRUE(of_a == single.feed(single.store().open().value(), a, 17)) << codec;
    EXPECT_TRUE(of_b == single.feed(single.store().open().value(), b, 17)) << codec;
    for (const auto& layer : batch.store().plan().layers)
      EXPECT_EQ(layer.bytes_per_token == 0, layer.donor >= 0) << layer.index;
  }
}

}  // namespace
}  // namespace ringkeep::testing
