// Layers that see their chunk of the text alone: what lies in earlier chunks never reaches a row,
// whichever step brings it, and the pages of earlier chunks are given back.
#include <gtest/gtest.h>

#include <algorithm>

#include "ragged_batch.h"

namespace ringkeep::testing {
namespace {

struct Case {
  int64_t chunk;
  const char* codec;
};

class Chunked : public ::testing::TestWithParam<Case> {
 protected:
  const int64_t size = GetParam().chunk;
  // Chunked layers alone: nothing else carries a token from one chunk into the next.
  const TinyModel tiny = TinyModel(std::vector<LayerSpec>(2, layer_of(LayerKind::chunked, size)));
  const int64_t length = 3 * size + size / 2 + 5;

  CacheFlags flags() const {
    CacheFlags flags;
    flags.kv_bits = GetParam().codec;
    flags.ctx = length;
    flags.chunk = 512;
    flags.parallel = 3;
    return flags;
  }
};

// A token changes the rows of its own chunk from itself on, and no other, in steps that end before,
// at and behind the borders of chunks and pages, and one by one.
TEST_P(Chunked, RowsKnowTheirChunkAlone) {
  std::mt19937 random(11);
  const Tokens tokens = random_tokens(static_cast<size_t>(length), random);
  Runner runner(tiny, flags());
  const auto logits_of = [&](const Tokens& text, size_t step) {
    const kv::SequenceId id = runner.store().open().value();
    Logits logits = runner.feed(id, text, step);
    runner.store().close(id);
    return logits;
  };
  const Logits whole = logits_of(tokens, 512);
  for (const int64_t step : {int64_t{1}, size - 1, size, size + 1, int64_t{64}})
    EXPECT_TRUE(logits_of(tokens, static_cast<size_t>(std::max<int64_t>(step, 1))) == whole)
        << "steps of " << step;

  for (const int64_t changed : {int64_t{0}, size - 1, size, 2 * size - 1, 2 * size}) {
    Tokens other = tokens;
    int32_t& token = other[static_cast<size_t>(changed)];
    token = (token + 1) % kVocab;
    const int64_t end = std::min(length, (changed / size + 1) * size);
    for (const size_t step : {size_t{512}, size_t{7}}) {
      const Logits found = logits_of(other, step);
      for (int64_t i = 0; i < length; ++i) {
        const bool same = found[static_cast<size_t>(i)] == whole[static_cast<size_t>(i)];
        EXPECT_EQ(same, i < changed || i >= end) << "token " << changed << ", row " << i;
      }
    }
  }
}

// Never more than the plan says, and no more after many chunks than after two: the pages in use
// are those of the chunk that the next row belongs to, and of its hot rows.
TEST_P(Chunked, MemoryIsThatOfAChunk) {
  std::mt19937 random(13);
  CacheFlags long_flags = flags();
  long_flags.ctx = 9 * size;
  long_flags.chunk = 48;
  long_flags.parallel = 1;
  Runner runner(tiny, long_flags);
  const kv::KvPlan& plan = runner.store().plan();
  const kv::SequenceId id = runner.store().open().value();
  const Tokens tokens = random_tokens(static_cast<size_t>(9 * size - 1), random);
  size_t at = 0, most_early = 0, most_late = 0;
  while (at < tokens.size()) {
    const size_t rows = std::min<size_t>(at % 3 == 0 ? 48 : 1, tokens.size() - at);
    runner.feed(id, std::span(tokens).subspan(at, rows), rows);
    at += rows;
    const auto next = static_cast<int64_t>(at);
    size_t pages = 0;
    for (size_t g = 0; g < plan.groups.size(); ++g) {
      const auto used = static_cast<size_t>(runner.store().usage()[g].pages_used);
      const int64_t begin = plan.groups[g].hot ? std::max(next / size * size, (next / 64 - 1) * 64)
                                               : next / size * size;
      const int64_t held = (next - 1) / 64 - begin / 64 + 1;  // and the page that is begun
      EXPECT_EQ(used, static_cast<size_t>(held)) << "group " << g << ", length " << next;
      EXPECT_LE(used, static_cast<size_t>(plan.groups[g].pages_decode)) << g;
      pages += used;
    }
    (next <= 2 * size ? most_early : most_late) =
        std::max(next <= 2 * size ? most_early : most_late, pages);
    EXPECT_LE(runner.store().bytes_used(), plan.kv_bytes + plan.kv_prefill_bytes);
  }
  EXPECT_LE(most_late, most_early + 1);  // chunks that are no whole pages begin anywhere
}

INSTANTIATE_TEST_SUITE_P(Sizes, Chunked,
                         ::testing::Values(Case{1, "f16"}, Case{40, "f16"}, Case{40, "8"},
                                           Case{64, "f16"}, Case{64, "4"}, Case{100, "8"},
                                           Case{100, "3.5"}, Case{128, "affine4:32"},
                                           Case{192, "f16"}, Case{192, "4"}),
                         [](const auto& info) {
                           std::string name =
                               fmt::format("{}_{}", info.param.chunk, info.param.codec);
                           for (char& c : name)
                             if (c == ':' || c == '.') c = '_';
                           return name;
                         });

// Sequences at other places of their chunks, in steps that end before, at and behind the borders.
TEST(ChunkedBatch, RaggedBatchEqualsSingleRuns) {
  for (const int64_t size : {1, 40, 62, 64, 100, 128}) {
    SCOPED_TRACE(size);
    const TinyModel tiny(std::vector<LayerSpec>(2, layer_of(LayerKind::chunked, size)));
    expect_ragged_batch_equals_single_runs([&] { return tiny.open(); });
  }
}

}  // namespace
}  // namespace ringkeep::testing
