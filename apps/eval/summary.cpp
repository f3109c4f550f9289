#include "eval/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ringkeep::eval {

double mean(std::span<const double> values) {
  if (values.empty()) return 0.0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const double rank = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(rank);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (rank - static_cast<double>(low)) * (values[high] - values[low]);
}

Summary summarize(const Rows& rows) {
  Summary s;
  s.rows = rows.kld.size();
  if (s.rows == 0) return s;
  const auto n = static_cast<double>(s.rows);
  std::vector<double> difference(s.rows);
  for (size_t i = 0; i < s.rows; ++i) difference[i] = rows.nll[i] - rows.nll_reference[i];
  const double shift = mean(difference);
  double squares = 0.0;
  for (const double d : difference) squares += (d - shift) * (d - shift);

  s.ppl = std::exp(mean(rows.nll));
  s.ppl_ratio = std::exp(shift);
  if (s.rows > 1) s.ppl_ratio_se = s.ppl_ratio * std::sqrt(squares / (n - 1) / n);
  s.kld_mean = mean(rows.kld);
  s.kld_median = quantile(rows.kld, 0.5);
  s.kld_p99 = quantile(rows.kld, 0.99);
  s.kld_p999 = quantile(rows.kld, 0.999);
  s.kld_max = *std::max_element(rows.kld.begin(), rows.kld.end());
  const auto same = std::count(rows.same_top.begin(), rows.same_top.end(), true);
  s.same_top1 = 100.0 * static_cast<double>(same) / n;
  return s;
}

Rows select(const Rows& rows, std::span<const size_t> indices) {
  Rows out;
  for (const size_t i : indices) {
    out.kld.push_back(rows.kld[i]);
    out.nll.push_back(rows.nll[i]);
    out.nll_reference.push_back(rows.nll_reference[i]);
    out.same_top.push_back(rows.same_top[i]);
  }
  return out;
}

}  // namespace ringkeep::eval
