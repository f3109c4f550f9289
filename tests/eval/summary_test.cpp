// Summaries against values from numpy (quantile) and closed forms.
#include "eval/summary.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ringkeep::eval {
namespace {

TEST(Summary, QuantilesAreNumpys) {
  // numpy.quantile([9, 1, 4, 16, 25, 36], q)
  const std::vector<double> values = {9, 1, 4, 16, 25, 36};
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 12.5);
  EXPECT_DOUBLE_EQ(quantile(values, 0.99), 35.45);
  EXPECT_DOUBLE_EQ(quantile(values, 0.1), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 0.0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 1.0), 36);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.999), 7);
}

TEST(Summary, PerplexityRatioAndItsStandardError) {
  Rows rows;
  rows.nll_reference = {1.0, 2.0, 3.0, 4.0};
  rows.nll = {1.1, 2.0, 3.3, 4.0};  // differences .1, 0, .3, 0: mean .1, sample variance .02
  rows.kld = {0.01, 0.02, 0.03, 0.10};
  rows.same_top = {true, true, false, true};
  const Summary s = summarize(rows);
  EXPECT_EQ(s.rows, 4u);
  EXPECT_NEAR(s.ppl, std::exp(2.6), 1e-12);
  EXPECT_NEAR(s.ppl_ratio, std::exp(0.1), 1e-12);
  EXPECT_NEAR(s.ppl_ratio_se, std::exp(0.1) * std::sqrt(0.02 / 4), 1e-12);
  EXPECT_NEAR(s.kld_mean, 0.04, 1e-15);
  EXPECT_NEAR(s.kld_median, 0.025, 1e-15);
  EXPECT_NEAR(s.kld_p99, 0.03 + 0.97 * 0.07, 1e-15);
  EXPECT_EQ(s.kld_max, 0.10);
  EXPECT_EQ(s.same_top1, 75.0);
}

TEST(Summary, OfTheReferenceItselfIsNeutral) {
  const Rows rows{{0, 0, 0}, {1, 2, 4}, {1, 2, 4}, {true, true, true}};
  const Summary s = summarize(rows);
  EXPECT_EQ(s.ppl_ratio, 1.0);
  EXPECT_EQ(s.ppl_ratio_se, 0.0);
  EXPECT_EQ(s.kld_max, 0.0);
  EXPECT_EQ(s.same_top1, 100.0);
}

TEST(Summary, SelectTakesTheRowsThatAreListed) {
  const Rows rows{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {true, false, true}};
  const std::vector<size_t> indices = {2, 1};
  const Rows out = select(rows, indices);
  EXPECT_EQ(out.kld, (std::vector<double>{3, 2}));
  EXPECT_EQ(out.nll, (std::vector<double>{6, 5}));
  EXPECT_EQ(out.nll_reference, (std::vector<double>{9, 8}));
  EXPECT_EQ(out.same_top, (std::vector<bool>{true, false}));
}

}  // namespace
}  // namespace ringkeep::eval
