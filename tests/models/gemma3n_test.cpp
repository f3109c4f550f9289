// Gemma 3n in ragged batches, and with rows taken back: a sequence's logits do not know about the
// others, with streams, sparse gates, shared caches and embeddings that are read token by token.
#include <gtest/gtest.h>

#include "ragged_batch.h"
#include "tiny_gemma3n.h"

namespace ringkeep::testing {
namespace {

TEST(Gemma3n, RaggedBatchEqualsSingleRuns) {
  const TinyGemma3n tiny;
  expect_ragged_batch_equals_single_runs([&] { return tiny.open(); });
}

// Drafts that are rejected leave nothing behind, also once windows have wrapped.
TEST(Gemma3n, RowsTakenBackLeaveNothing) {
  const TinyGemma3n tiny;
  for (const char* codec : {"f16", "4"}) {
    CacheFlags flags = two_sequences(codec);
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
