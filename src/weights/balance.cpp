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

std::vector<float> row_lengths(const quant::SourceTensor& projection, std::span<const float> input,
                               ThreadPool& pool) {
  constexpr int64_t kBlock = 16;  // rows a task
  const int64_t rows = projection.rows(), cols = projection.cols();
  std::vector<float> lengths(static_cast<size_t>(rows));
  pool.parallel_for((rows + kBlock - 1) / kBlock, [&](int64_t task, int) {
    const int64_t row0 = task * kBlock, count = std::min(kBlock, rows - row0);
    std::vector<float> values(static_cast<size_t>(count * cols));
    quant::dequantize(quant::decode_rows(projection, row0, count), values.data());
    for (int64_t r = 0; r < count; ++r) {
      double sum = 0.0;
      for (int64_t i = 0; i < cols; ++i) {
        const double value = double{values[static_cast<size_t>(r * cols + i)]} *
                             double{input[static_cast<size_t>(i)]};
        sum += value * value;
      }
      lengths[static_cast<size_t>(row0 + r)] = static_cast<float>(std::sqrt(sum));
    }
  });
  return lengths;
}

std::vector<float> expected_channels(std::span<const float> lengths,
                                     std::span<const float> weights) {
  const size_t dim = weights.size(), heads = lengths.size() / dim;
  std::vector<double> squares(dim);
  for (size_t h = 0; h < heads; ++h) {
    const auto head = lengths.subspan(h * dim, dim);
    double sum = 0.0;
    for (const float length : head) sum += double{length} * length;
    if (sum <= 0.0) continue;  // a head of zeros
    for (size_t i = 0; i < dim; ++i) squares[i] += double{head[i]} * head[i] / sum;
  }
  std::vector<float> channels(dim);
  const double heads_and_dim = static_cast<double>(dim) / static_cast<double>(heads);
  for (size_t i = 0; i < dim; ++i)
    channels[i] = static_cast<float>(std::sqrt(squares[i] * heads_and_dim)) * weights[i];
  return channels;
}

}  // namespace ringkeep::weights
