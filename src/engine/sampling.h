// Sampling parameters and the sampler. Order, on every path: what a constraint forbids, bias,
// penalties (by token history), top-k, top-p, min-p, temperature last. Temperatures below 1e-5 are
// greedy.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ringkeep::engine {

struct SamplingParams {
  float temperature = 0.8f;
  int top_k = 40;                   // <= 0: off
  float top_p = 0.95f;              // 1: off
  float min_p = 0.05f;              // 0: off
  float repetition_penalty = 1.0f;  // prompt and output
  float presence_penalty = 0.0f;    // output only
  float frequency_penalty = 0.0f;   // output only
  std::vector<std::pair<int32_t, float>> logit_bias;
  uint64_t seed = 0;
};

// Errors (usage) name the parameter, the range and the value; ids must be below vocab_size.
Status validate(const SamplingParams& params, int64_t vocab_size);

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;  // of the raw softmax
};

struct Sampled {
  int32_t token = 0;
  float logprob = 0.0f;           // of the raw softmax; only when top_logprobs >= 0
  std::vector<TokenLogprob> top;  // the top_logprobs largest
};

// The log-probability of `token` in the raw softmax of logits [vocab], and the top_logprobs (>= 0)
// largest. Fails (runtime) on a non-finite logit.
Result<Sampled> score(std::span<const float> logits, int32_t token, int top_logprobs);

class Sampler {
 public:
  explicit Sampler(SamplingParams params);
  // logits [vocab] are changed in place. `prompt` and `output` are the token history.
  // top_logprobs < 0: no log-probabilities; those given are of the unmasked softmax. `allowed`:
  // token t may follow where bit t % 64 of word t / 64 is set, [ceil(vocab / 64)]; empty: any may.
  // Fails (runtime) on a non-finite logit, or when none may follow.
  Result<Sampled> sample(std::span<float> logits, std::span<const int32_t> prompt,
                         std::span<const int32_t> output, int top_logprobs = -1,
                         std::span<const uint64_t> allowed = {});

 private:
  SamplingParams params_;
  std::mt19937_64 random_;
};

}  // namespace ringkeep::engine
