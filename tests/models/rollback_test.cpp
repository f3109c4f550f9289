// Model and store together, step by step: rejected drafts, rollbacks long after the window has
// wrapped, ragged batches and pinned tokens leave the logits that a fresh run of the same tokens
// has, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>

#include "runner.h"

namespace ringkeep::testing {
namespace {

constexpr int64_t kWindow = 40;
constexpr int64_t kMargin = 8;

struct Layout {
  const char* name;
  std::vector<LayerSpec> layers;
  int64_t max_kv_size = 0;
  int64_t keep = 0;
  int64_t start = 0;  // --quantized-kv-start
};

std::vector<Layout> layouts() {
  const LayerSpec full = layer_of(LayerKind::full), sliding = layer_of(LayerKind::sliding, kWindow);
  return {
      {"SlidingAndFull", {sliding, full, layer_of(LayerKind::sliding, 3)}},
      {"BoundedWithKeep", {full, sliding, full}, 72, 5},
      {"Chunked", {layer_of(LayerKind::chunked, 48), full}},
      {"Start", {sliding, full}, 0, 0, 100},
  };
}

class Rollback : public ::testing::TestWithParam<std::tuple<Layout, const char*>> {};

// Drafts of 1 to 8 tokens of which a random number is accepted, and now and then accepted tokens
// taken back again, as far as the margin promises.
TEST_P(Rollback, TwoHundredRoundsEqualAFreshRun) {
  const auto& [layout, codec] = GetParam();
  const TinyModel tiny(layout.layers);
  CacheFlags flags;
  flags.kv_bits = codec;
  flags.max_kv_size = layout.max_kv_size;
  flags.keep = layout.keep;
  flags.quantized_kv_start = layout.start;
  flags.ctx = 2048;
  flags.chunk = 64;
  flags.rollback = kMargin;
  Runner drafts(tiny, flags);
  kv::Store& store = drafts.store();
  const kv::SequenceId sequence = store.open().value();
  std::mt19937 random(7);

  Tokens tokens = random_tokens(30, random);
  Logits logits = drafts.feed(sequence, tokens, 64);
  int taken_back = 0;
  for (int round = 0; round < 200; ++round) {
    if (random() % 3 == 0) {
      const int64_t length = store.length(sequence), limit = store.rollback_limit(sequence);
      EXPECT_LE(limit, kMargin);
      const int64_t rows =
          limit > 0 ? 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(limit)) : 0;
      if (rows > 0) {
        store.rollback(sequence, rows).value();
        ++taken_back;
      }
      tokens.resize(static_cast<size_t>(length - rows));
      logits.resize(tokens.size());
    }
    const int64_t most = std::min<int64_t>(kMargin, store.max_step_rows(sequence));
    const auto draft = random_tokens(1 + random() % static_cast<uint64_t>(most), random);
    const Logits found = drafts.append({{sequence, draft}});
    const size_t accepted = random() % (draft.size() + 1);
    if (accepted == 0)
      store.abort_step(sequence);
    else
      drafts.commit(sequence, static_cast<int64_t>(accepted));
    tokens.insert(tokens.end(), draft.begin(), draft.begin() + static_cast<ptrdiff_t>(accepted));
    logits.insert(logits.end(), found.begin(), found.begin() + static_cast<ptrdiff_t>(accepted));
    ASSERT_EQ(store.length(sequence), static_cast<int64_t>(tokens.size()));
  }
  ASSERT_GT(tokens.size(), 4u * kWindow);  // wrapped several times
  EXPECT_GT(taken_back, 20);

  flags.rollback = 0;
  Runner fresh(tiny, flags);
  const Logits expected = fresh.feed(fresh.store().open().value(), tokens, 64);
  for (size_t i = 0; i < tokens.size(); ++i)
    ASSERT_TRUE(logits[i] == expected[i]) << "token " << i << " of " << tokens.size();
}

INSTANTIATE_TEST_SUITE_P(Layouts, Rollback,
                         ::testing::Combine(::testing::ValuesIn(layouts()),
                                            ::testing::Values("f16", "8", "4", "K4V3",
                                                              "affine4:32")),
                         [](const auto& info) {
                           std::string name = fmt::format("{}_{}", std::get<0>(info.param).name,
                                                          std::get<1>(info.param));
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

// A margin of none is a promise of none: taking back fails and changes nothing.
TEST(RollbackLimit, BeyondTheMarginIsAnErrorThatChangesNothing) {
  const TinyModel tiny({layer_of(LayerKind::sliding, kWindow), layer_of(LayerKind::full)});
  CacheFlags flags;
  flags.ctx = 512;
  flags.chunk = 64;
  flags.rollback = 4;
  Runner runner(tiny, flags);
  const kv::SequenceId sequence = runner.store().open().value();
  std::mt19937 random(3);
  const Tokens tokens = random_tokens(200, random), more = random_tokens(3, random);
  runner.feed(sequence, tokens, 64);
  const auto refused = runner.store().rollback(sequence, 5);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(runner.store().length(sequence), 200);
  const Logits found = runner.feed(sequence, more, 3);

  Runner fresh(tiny, flags);
  const kv::SequenceId other = fresh.store().open().value();
  fresh.feed(other, tokens, 64);
  EXPECT_TRUE(found == fresh.feed(other, more, 3));
}

// Two sequences of different lengths, one of them past the window, in every step.
TEST(RaggedBatch, EachRowEqualsItsSingleRun) {
  for (const char* codec : {"f16", "4"}) {
    const TinyModel tiny({layer_of(LayerKind::sliding, kWindow), layer_of(LayerKind::full),
                          layer_of(LayerKind::chunked, 48), layer_of(LayerKind::sliding, kWindow)});
    CacheFlags flags;
    flags.kv_bits = codec;
    flags.ctx = 512;
    flags.chunk = 128;
    flags.parallel = 2;
    std::mt19937 random(5);
    const Tokens a = random_tokens(5 + 60, random), b = random_tokens(kWindow + 37 + 60, random);
    Runner batch(tiny, flags, 2), single(tiny, flags);
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
  }
}

// K and V of the rows [0, n) of one layer, read back.
std::vector<float> read_rows(Runner& runner, kv::SequenceId sequence, int layer, int64_t n) {
  const auto storage = runner.store().storage(layer).back();
  const auto& geometry = runner.store().plan().groups[static_cast<size_t>(storage.group)].geometry;
  std::vector<int64_t> slots;
  for (int64_t i = 0; i < n; ++i) {
    slots.push_back(runner.store().slot(sequence, storage.group, i));
    EXPECT_GE(slots.back(), 0) << "row " << i << " is gone";
  }
  const auto k_floats = static_cast<size_t>(n * geometry.kv_heads * geometry.k_dim);
  std::vector<float> rows(k_floats + static_cast<size_t>(n * geometry.kv_heads * geometry.v_dim));
  kernels::run(runner.ops().kv_read,
               kernels::KvReadParams{.geometry = geometry,
                                     .storage = storage.data,
                                     .page_stride = storage.page_stride,
                                     .slots = slots.data(),
                                     .n = n,
                                     .k = rows.data(),
                                     .v = rows.data() + k_floats},
               runner.exec());
  return rows;
}

TEST(KeptTokens, StayBitForBitAfterManyWraps) {
  for (const char* codec : {"f16", "8", "4"}) {
    for (const int64_t keep : {4, 40, 70}) {
      const TinyModel tiny({layer_of(LayerKind::full), layer_of(LayerKind::sliding, kWindow)});
      CacheFlags flags;
      flags.kv_bits = codec;
      flags.max_kv_size = 128;
      flags.keep = keep;
      flags.chunk = 50;
      Runner runner(tiny, flags);
      const kv::SequenceId sequence = runner.store().open().value();
      std::mt19937 random(9);
      runner.feed(sequence, random_tokens(500, random), 50);
      const auto once = read_rows(runner, sequence, 0, keep);
      runner.feed(sequence, random_tokens(1500, random), 50);
      EXPECT_TRUE(once == read_rows(runner, sequence, 0, keep)) << codec << ", keep " << keep;
    }
  }
}

}  // namespace
}  // namespace ringkeep::testing
