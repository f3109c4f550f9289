// Haystacks: every fact ends where its depth says, whatever the tokenizer; equal seeds give equal
// texts.
#include "eval/needle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "eval/filler.h"
#include "text/golden_tokenizer.h"

namespace ringkeep::eval {
namespace {

class Haystacks : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<text::Tokenizer> tokenizer_ =
      text::Tokenizer::create(text::golden_tokenizer(GetParam())).value();
  std::vector<int32_t> filler_ =
      tokenizer_->encode(filler_text(3000), {.add_special = false, .parse_special = false});
  static constexpr int64_t kCtx = 2048;
};

TEST_P(Haystacks, FactsStandAtTheirDepths) {
  const std::vector<int64_t> depths = {600, 0, 1500};
  const auto spec = make_haystacks(*tokenizer_, filler_, kCtx, depths, 3, 5, 1);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->depths, (std::vector<int64_t>{0, 600, 1500}));
  ASSERT_EQ(spec->haystacks.size(), 3u);
  for (const Haystack& haystack : spec->haystacks) {
    EXPECT_EQ(haystack.tokens.front(), 1);
    for (size_t d = 0; d < spec->depths.size(); ++d) {
      const Fact& fact = haystack.facts[d];
      const size_t end = haystack.tokens.size() - static_cast<size_t>(spec->depths[d]);
      const std::string before = tokenizer_->decode(std::span(haystack.tokens).first(end));
      EXPECT_TRUE(before.ends_with(fact.statement)) << before.substr(before.size() - 60);
      // Question and answer together are the statement as far as its full stop.
      std::vector<int32_t> whole = fact.question;
      whole.insert(whole.end(), fact.answer.begin(), fact.answer.end());
      const std::string text = tokenizer_->decode(whole);
      const std::string expected = fact.statement.substr(0, fact.statement.size() - 2);
      EXPECT_EQ(text.substr(text.find("The")), expected.substr(1));
      EXPECT_FALSE(fact.answer.empty());
      EXPECT_LE(haystack.tokens.size() + whole.size(), static_cast<size_t>(kCtx));
      // The answer stands in the text once.
      const std::string all = tokenizer_->decode(haystack.tokens);
      const size_t at = all.find(expected.substr(1));
      EXPECT_NE(at, std::string::npos);
      EXPECT_EQ(all.find(expected.substr(1), at + 1), std::string::npos);
    }
  }
  EXPECT_NE(spec->haystacks[0].tokens, spec->haystacks[1].tokens);
  const auto again = make_haystacks(*tokenizer_, filler_, kCtx, depths, 3, 5, 1);
  EXPECT_EQ(again->haystacks[2].tokens, spec->haystacks[2].tokens);
  const auto other = make_haystacks(*tokenizer_, filler_, kCtx, depths, 3, 6, 1);
  EXPECT_NE(other->haystacks[2].tokens, spec->haystacks[2].tokens);
}

TEST_P(Haystacks, DepthsWithoutRoomAreRefused) {
  for (const std::vector<int64_t>& depths :
       std::vector<std::vector<int64_t>>{{1984}, {100, 101}, {-1}, {}}) {
    const auto spec = make_haystacks(*tokenizer_, filler_, kCtx, depths, 1, 1, -1);
    ASSERT_FALSE(spec.ok());
    EXPECT_EQ(spec.error().kind, ErrorKind::usage);
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Haystacks, testing::Values("llama-2", "gpt2"),
                         [](const auto& name) {
                           std::string out = name.param;
                           std::erase(out, '-');
                           return out;
                         });

TEST(Needle, DefaultDepthsLieOnBothSidesOfTheWindow) {
  ModelConfig config;
  config.layers.resize(2);
  EXPECT_EQ(default_depths(config, 4096), (std::vector<int64_t>{64, 256, 1024, 2048}));
  config.layers[1].window = 512;
  EXPECT_EQ(default_depths(config, 4096), (std::vector<int64_t>{64, 256, 448, 576, 1024, 2048}));
  EXPECT_EQ(default_depths(config, 512), (std::vector<int64_t>{64, 256}));
}

TEST(Needle, CellsAreMeansOverTheFacts) {
  NeedleResult result;
  result.spec.haystacks.resize(3);
  result.spec.depths = {64};
  result.reference.answers = {{{true, -1.0}, {true, -2.0}, {false, -6.0}}};
  result.rows.resize(1);
  result.rows[0].answers = {{{true, -1.5}, {false, -3.0}, {false, -6.0}}};
  const NeedleCell cell = needle_cell(result, result.rows[0], 0);
  EXPECT_EQ(cell.exact, 1);
  EXPECT_NEAR(cell.log_prob, -3.5, 1e-12);
  EXPECT_NEAR(cell.delta, -0.5, 1e-12);  // of -.5, -1, 0: sample variance .25
  EXPECT_NEAR(cell.delta_se, 0.5 / std::sqrt(3.0), 1e-12);
}

}  // namespace
}  // namespace ringkeep::eval
