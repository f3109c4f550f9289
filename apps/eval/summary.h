// What a table says of many rows: perplexities, and the spread of the divergence.
#pragma once

#include <span>
#include <vector>

namespace ringkeep::eval {

double mean(std::span<const double> values);  // 0 of none

// Linear interpolation between the closest ranks, as numpy.quantile: q in [0, 1]; 0 of none.
double quantile(std::vector<double> values, double q);

// The scored rows of one cache beside those of the reference.
struct Rows {
  std::vector<double> kld;            // [rows] KL(reference || cache), nats
  std::vector<double> nll;            // [rows] of the true next token
  std::vector<double> nll_reference;  // [rows]
  std::vector<bool> same_top;         // [rows] same most likely token
};

struct Summary {
  size_t rows = 0;
  double ppl = 0.0;
  double ppl_ratio = 1.0;     // to the reference: exp(mean(nll - nll_reference))
  double ppl_ratio_se = 0.0;  // its standard error, from the paired differences (delta method)
  double kld_mean = 0.0;
  double kld_median = 0.0;
  double kld_p99 = 0.0;
  double kld_p999 = 0.0;
  double kld_max = 0.0;
  double same_top1 = 100.0;  // percent
};
Summary summarize(const Rows& rows);

// The rows of `rows` whose index is listed.
Rows select(const Rows& rows, std::span<const size_t> indices);

}  // namespace ringkeep::eval
