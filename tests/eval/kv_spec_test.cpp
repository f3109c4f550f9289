// Chunks, scored positions and steps: what is covered, once and in order.
#include "eval/kv_spec.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ringkeep::eval {
namespace {

TEST(KvSpec, ChunksFollowOneAnotherAndBeginWithBos) {
  std::vector<int32_t> text(25);
  std::iota(text.begin(), text.end(), 100);
  const auto chunks = cut_chunks(text, 8, 0, 2);
  ASSERT_EQ(chunks.size(), 3u);  // 7 of the text each, 4 left over
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(chunks[i].size(), 8u);
    EXPECT_EQ(chunks[i][0], 2);
    EXPECT_EQ(chunks[i][1], 100 + 7 * static_cast<int32_t>(i));
  }
  EXPECT_EQ(cut_chunks(text, 8, 2, 2).size(), 2u);
  const auto without = cut_chunks(text, 8, 0, -1);
  ASSERT_EQ(without.size(), 3u);
  EXPECT_EQ(without[2][0], 116);
  EXPECT_TRUE(cut_chunks(text, 27, 0, 2).empty());
}

class Steps : public testing::TestWithParam<int64_t> {};

TEST_P(Steps, CoverTheChunkOnceAndScoreWhatTheyShould) {
  KvSpec spec{.ctx = GetParam(), .lengths = {40, 700}, .free_run = 32, .prompts = 3};
  if (spec.ctx < 700) spec.lengths.pop_back();
  constexpr int64_t kChunk = 100, kBlock = 30;
  int64_t at = 0;
  std::vector<int64_t> scored, prompts;
  for (const Step& step : make_steps(spec, kChunk, kBlock)) {
    EXPECT_EQ(step.begin, at);
    EXPECT_GT(step.end, step.begin);
    EXPECT_LE(step.end - step.begin, step.scored ? kBlock : kChunk);
    for (int64_t p = step.begin; step.scored && p < step.end; ++p) scored.push_back(p);
    if (step.continued > 0) {
      prompts.push_back(step.end);
      EXPECT_LE(step.end + step.continued, spec.ctx);
    }
    at = step.end;
  }
  EXPECT_EQ(at, spec.ctx - 1);  // the last token is only predicted
  EXPECT_EQ(scored, scored_positions(spec));
  std::vector<int64_t> expected;
  for (int64_t p = 0; p < spec.ctx - 1; ++p) {
    const bool second_half = p >= spec.ctx / 2;
    const bool before_40 = p >= 20 && p < 40;
    const bool before_700 = spec.ctx >= 700 && p >= 444 && p < 700;
    if (second_half || before_40 || before_700) expected.push_back(p);
  }
  EXPECT_EQ(scored, expected);
  ASSERT_EQ(prompts.size(), 3u);
  EXPECT_EQ(prompts.front(), spec.ctx / 2);
}

INSTANTIATE_TEST_SUITE_P(Contexts, Steps, testing::Values(64, 129, 700, 2048));

TEST(KvSpec, WithoutContinuationsNoStepStopsForOne) {
  const KvSpec spec{.ctx = 512, .free_run = 0};
  for (const Step& step : make_steps(spec, 512, 64)) EXPECT_EQ(step.continued, 0);
}

}  // namespace
}  // namespace ringkeep::eval
