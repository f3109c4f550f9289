// Sequences of different lengths in one batch: each gets the logits that it gets alone.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "runner.h"

namespace ringkeep::testing {

inline CacheFlags two_sequences(const char* codec) {
  CacheFlags flags;
  flags.kv_bits = codec;
  flags.ctx = 512;
  flags.chunk = 128;
  flags.parallel = 2;
  return flags;
}

// `open` gives the checkpoint; windows of at most 40 tokens wrap. `pack` is of the batch's model.
template <typename Open>
void expect_ragged_batch_equals_single_runs(const Open& open,
                                            const weights::PackOptions& pack = {}) {
  for (const char* codec : {"f16", "8", "4"}) {
    std::mt19937 random(5);
    const Tokens a = random_tokens(5 + 60, random), b = random_tokens(117 + 60, random);
    Runner batch(open(), two_sequences(codec), 2, pack), single(open(), two_sequences(codec));
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
    EXPECT_TRUE(of_a == single.feed(single.store().open().value(), a, 17)) << codec;
    EXPECT_TRUE(of_b == single.feed(single.store().open().value(), b, 17)) << codec;
  }
}

}  // namespace ringkeep::testing
