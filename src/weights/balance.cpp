#include "weights/balance.h"

#include <algorithm>
#include <cmath>

namespace ringkeep::weights {
namespace {

// Root mean square over each channel's rotary pair, floored. [dim]
std::vector<double> pair_rms(const std::vector<float>& channels, int rotary_dim) {
  const int dim = static_cast<int>(channels.size());
  const int pairs = rotary_dim / 2;
  std::vector<double> rms(channels.size());
  for (int i = 0; i < dim; ++i) {
    const int other = i < pairs ? i + pairs : i < 2 * pairs ? i - pairs : i;
    const double a = channels[static_cast<size_t>(i)];
    const double b = channels[static_cast<size_t>(other)];
    rms[static_cast<size_t>(i)] = std::sqrt((a * a + b * b) / 2.0);
  }
  const double floor = std::max(1e-3 * *std::max_element(rms.begin(), rms.end()), 1e-30);
  for (double& value : rms) value = std::max(value, floor);
  return rms;
}

}  // namespace

std::vector<float> key_balance(const std::vector<float>& q_channels,
                               const std::vector<float>& k_channels, int rotary_dim) {
  const auto q = pair_rms(q_channels, rotary_dim);
  const auto k = pair_rms(k_channels, rotary_dim);
  double mean_log = 0.0;
  for (size_t i = 0; i < q.size(); ++i) mean_log += 0.5 * std::log(q[i] / k[i]);
  mean_log /= static_cast<double>(q.size());
  std::vector<float> c(q.size());
  for (size_t i = 0; i < q.size(); ++i)
    c[i] = static_cast<float>(std::exp(0.5 * std::log(q[i] / k[i]) - mean_log));
  return c;
}

}  // namespace ringkeep::weights
