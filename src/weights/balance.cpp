#include "weights/balance.h"

#include <algorithm>
#include <cmath>

namespace ringkeep::weights {
namespace {

// Root mean square of the weights over each channel's rotary pair, floored. [dim]
std::vector<double> pair_rms(const std::vector<float>& weight, int rotary_dim) {
  const int dim = static_cast<int>(weight.size());
  const int pairs = rotary_dim / 2;
  std::vector<double> rms(weight.size());
  for (int i = 0; i < dim; ++i) {
    const int other = i < pairs ? i + pairs : i < 2 * pairs ? i - pairs : i;
    const double a = weight[static_cast<size_t>(i)];
    const double b = weight[static_cast<size_t>(other)];
    rms[static_cast<size_t>(i)] = std::sqrt((a * a + b * b) / 2.0);
  }
  const double floor = std::max(1e-3 * *std::max_element(rms.begin(), rms.end()), 1e-30);
  for (double& value : rms) value = std::max(value, floor);
  return rms;
}

}  // namespace

std::vector<float> balance_from_norms(const std::vector<float>& q_norm,
                                      const std::vector<float>& k_norm, int rotary_dim) {
  const auto q = pair_rms(q_norm, rotary_dim);
  const auto k = pair_rms(k_norm, rotary_dim);
  double mean_log = 0.0;
  for (size_t i = 0; i < q.size(); ++i) mean_log += 0.5 * std::log(q[i] / k[i]);
  mean_log /= static_cast<double>(q.size());
  std::vector<float> c(q.size());
  for (size_t i = 0; i < q.size(); ++i)
    c[i] = static_cast<float>(std::exp(0.5 * std::log(q[i] / k[i]) - mean_log));
  return c;
}

}  // namespace ringkeep::weights
