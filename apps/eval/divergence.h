// How far one row of logits is from another: the numbers that `eval` adds up. Sums are float64.
#pragma once

#include <cstdint>
#include <span>

namespace ringkeep::eval {

// log(sum(exp(logits))) and the first largest logit of a row.
struct Softmax {
  double log_sum = 0.0;
  int32_t top = 0;
};
Softmax softmax(std::span<const float> logits);  // [vocab], not empty

// -log p(token), in nats.
inline double nll(std::span<const float> logits, const Softmax& s, int32_t token) {
  return s.log_sum - static_cast<double>(logits[static_cast<size_t>(token)]);
}

// KL(p || q) in nats of the distributions that two rows [vocab] of logits stand for.
double kl_divergence(std::span<const float> p, const Softmax& p_softmax, std::span<const float> q,
                     const Softmax& q_softmax);

}  // namespace ringkeep::eval
