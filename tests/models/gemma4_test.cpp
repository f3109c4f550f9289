// Gemma 4 in ragged batches: a sequence's logits do not know about the others, on layers of both
// head sizes, on layers that share, and with embeddings that are read token by token.
#include <gtest/gtest.h>

#include "ragged_batch.h"
#include "tiny_gemma4.h"

namespace ringkeep::testing {
namespace {

TEST(Gemma4, RaggedBatchEqualsSingleRuns) {
  for (const bool e_series : {false, true}) {
    const TinyGemma4 tiny(e_series);
    SCOPED_TRACE(e_series);
    expect_ragged_batch_equals_single_runs([&] { return tiny.open(); });
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
