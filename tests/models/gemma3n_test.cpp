// Gemma 3n in ragged batches, and with rows taken back: a sequence's logits do not know about the
// others, with streams, sparse gates, shared caches and embeddings that are read token by token.
#include <gtest/gtest.h>

#include "runner.h"
#include "tiny_gemma3n.h"

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

TEST(Gemma3n, RaggedBatchEqualsSingleRuns) {
  const TinyGemma3n tiny;
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
    EXPECT_TRUE(of_a == single.feed(single.store().open().value(), a, 17)) << codec;
    EXPECT_TRUE(of_b == single.feed(single.store().open().value(), b, 17)) << codec;
  }
}

// Drafts that are rejected leave nothing behind, also once windows have wrapped.
TEST(Gemma3n, RowsTakenBackLeaveNothing) {
  const TinyGemma3n tiny;
  for (const char* codec : {"f16", "4"}) {
    CacheFlags flags = flags_of(codec);
    flags.rollback = 4;
    std::mt19937 random(6);
    const Tokens tokens = random_tokens(150, random), drafts = random_tokens(4, random);
    Runner plain(tiny.open(), flags), drafting(tiny.open(), flags);
    const Logits want = plain.feed(plain.store().open().value(), tokens, 32);
    const auto sequence = drafting.store().open().value();
    Logits got = drafting.feed(sequence, std::span(tokens).first(100), 32);
    for (size_t at = 100; at < tokens.size(); ++at) {
      Tokens step = {tokens[at]};
      step.insert(step.end(), drafts.begin(), drafts.end());
      got.push_back(drafting.append({{sequence, step}}).front());
      drafting.commit(sequence, 1);
    }
    EXPECT_TRUE(got == want) << codec;
  }
}

}  // namespace
}  // namespace ringkeep::testing
