// Gemma 4 in ragged batches: a sequence's logits do not know about the others, on layers of both
// head sizes, on layers that share, and with embeddings that are read token by token.
#include <gtest/gtest.h>

#include "runner.h"
#include "tiny_gemma4.h"

namespace ringkeep::testing {
namespace {

CacheFlags flags_of(const char* codec) {
  CacheFlags flags;
  flags.kv_bits = codec;
  flags.ctx = 512;
  flags.chunk = 128;
  flags.parallel = 2;
  return flags;
}

TEST(Gemma4, RaggedBatchEqualsSingleRuns) {
  for (const bool e_series : {false, true}) {
    const TinyGemma4 tiny(e_series);
    for (const char* codec : {"f16", "8", "4"}) {
      std::mt19937 random(5);
      const Tokens a = random_tokens(5 + 60, random), b = random_tokens(117 + 60, random);
      Runner batch(tiny.open(), flags_of(codec), 2), single(tiny.open(), flags_of(codec));
      const auto first = batch.store().open().value(), second = batch.store().open().value();
      Logits of_a = batch.feed(first, std::span(a).first(5), 128);
      Logits of_b = batch.feed(second, std::span(b).first(117), 128);
      for (size_t step = 0; step < 60; step += 3) {
        const auto rows = batch.append({{first, std::span(a).subspan(5 + step, 3)},
                                        {second, std::span(b).subspan(117 + step, 3)}});
        of_a.insert(of_a.end(), rows.begin(), rows.begin() + 3);
        of_b.insert(of_b.end(), rows.begin() + 3, rows.end());
        batch.commit(first, 3);
        batch.commit(second, 3);
      }
      EXPECT_TRUE(of_a == single.feed(single.store().open().value(), a, 17)) << e_series << codec;
      EXPECT_TRUE(of_b == single.feed(single.store().open().value(), b, 17)) << e_series << codec;
    }
  }
}

// Only owners of keys have a balance, and it answers to the queries of every layer that reads them.
TEST(Gemma4, KeysAreBalancedForAllTheirReaders) {
  const TinyGemma4 tiny(true);
  const auto device = kernels::make_cpu_device(1);
  const auto balance_with = [&](int donor_of_layer_4) {
    auto checkpoint = tiny.open();
    EXPECT_EQ(checkpoint.config.layers[4].donor, 2);
    checkpoint.config.layers[4].donor = donor_of_layer_4;
    return weights::load_decoder(checkpoint, {}, kernels::cpu_backend(), *device).value().balance;
  };
  const auto own = balance_with(2), moved = balance_with(0);
  const ModelConfig config = tiny.open().config;
  for (size_t i = 0; i < own.size(); ++i) {
    const LayerSpec& layer = config.layers[i];
    const int size = layer.donor < 0 ? layer.kv_heads * layer.k_dim : 0;
    EXPECT_EQ(own[i].size(), static_cast<size_t>(size)) << i;
    EXPECT_EQ(own[i] == moved[i], i != 0 && i != 2) << i;
  }
}

}  // namespace
}  // namespace ringkeep::testing
