#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "engine/sampling.h"

namespace ringkeep::engine {
namespace {

constexpr float kGreedyTemperature = 1e-5f;

struct Candidate {
  float logit = 0.0f;
  int32_t token = 0;
};

// The order of preference: larger logits first, then smaller ids.
bool better(const Candidate& a, const Candidate& b) {
  return (a.logit > b.logit) | ((a.logit == b.logit) & (a.token < b.token));
}

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

struct Scan {
  float max = -FLT_MAX;
  bool finite = true;
};

// One pass in independent lanes, so that the compiler can use vectors.
Scan scan(std::span<const float> logits) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> max, poison;  // x * 0 is NaN when x is not finite
  max.fill(-FLT_MAX);
  poison.fill(0.0f);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float x = logits[i + lane];
      max[lane] = x > max[lane] ? x : max[lane];
      poison[lane] += x * 0.0f;
    }
  }
  Scan result;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    result.max = std::max(result.max, max[lane]);
    result.finite = result.finite && poison[lane] == 0.0f;
  }
  for (; i < logits.size(); ++i) {
    result.max = std::max(result.max, logits[i]);
    result.finite = result.finite && std::isfinite(logits[i]);
  }
  return result;
}

constexpr float kLeastLog = -21.0f;  // below 2^-30: the weight is 0

// exp(x) for kLeastLog <= x <= 0 as a multiple of 2^-30. Integers add up to the same sum in any
// order, and plain arithmetic gives the same weights on every platform, which a library's exp does
// not.
uint32_t weight(float x) {
  constexpr float kLog2e = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr int kFractionBits = 30;
  const auto exponent = static_cast<int32_t>(x * kLog2e - 0.5f);
  const auto n = static_cast<float>(exponent);
  const float r = (x - n * kLn2High) - n * kLn2Low;  // |r| <= ln(2) / 2
  float series = 1.0f + r * (1.0f / 7);              // exp(r), Taylor: the rest is below 2^-24
  series = 1.0f + series * (r * (1.0f / 6));
  series = 1.0f + series * (r * (1.0f / 5));
  series = 1.0f + series * (r * (1.0f / 4));
  series = 1.0f + series * (r * (1.0f / 3));
  series = 1.0f + series * (r * (1.0f / 2));
  series = 1.0f + series * r;
  const auto scale = std::bit_cast<float>((127 + exponent + kFractionBits) << 23);
  return static_cast<uint32_t>(static_cast<int32_t>(series * scale));
}

// Of every candidate at this temperature. Two loops, each of which the compiler vectorises.
std::vector<uint32_t> weights(const std::vector<Candidate>& candidates, float max,
                              float temperature) {
  std::vector<float> logs(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    const float x = (candidates[i].logit - max) / temperature;
    logs[i] = x > kLeastLog ? x : kLeastLog;
  }
  std::vector<uint32_t> result(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) result[i] = weight(logs[i]);
  return result;
}

void apply_bias(const SamplingParams& params, std::span<float> logits) {
  for (const auto& [token, bias] : params.logit_bias) logits[static_cast<size_t>(token)] += bias;
}

bool in_vocabulary(int32_t token, std::span<const float> logits) {
  return token >= 0 && static_cast<size_t>(token) < logits.size();
}

void apply_penalties(const SamplingParams& params, std::span<float> logits,
                     std::span<const int32_t> prompt, std::span<const int32_t> output) {
  if (params.repetition_penalty != 1.0f) {
    std::vector<bool> seen(logits.size());
    for (const auto history : {prompt, output}) {
      for (const int32_t token : history) {
        if (!in_vocabulary(token, logits) || seen[static_cast<size_t>(token)]) continue;
        seen[static_cast<size_t>(token)] = true;
        float& logit = logits[static_cast<size_t>(token)];
        logit =
            logit > 0.0f ? logit / params.repetition_penalty : logit * params.repetition_penalty;
      }
    }
  }
  if (params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f) {
    std::unordered_map<int32_t, int> counts;
    for (const int32_t token : output) {
      if (in_vocabulary(token, logits)) ++counts[token];
    }
    for (const auto& [token, count] : counts) {
      logits[static_cast<size_t>(token)] -=
          params.presence_penalty + params.frequency_penalty * static_cast<float>(count);
    }
  }
}

// Makes what is not allowed kForbidden: its weight is 0 in all that follows. False when nothing is
// allowed.
bool forbid(std::span<const uint64_t> allowed, std::span<float> logits) {
  bool any = false;
  for (size_t word = 0; word < allowed.size(); ++word) {
    const size_t first = word * 64, n = std::min<size_t>(64, logits.size() - first);
    const uint64_t bits = allowed[word] & (~uint64_t{0} >> (64 - n));
    any = any || bits != 0;
    if (bits == ~uint64_t{0}) continue;
    for (size_t i = 0; i < n; ++i)
      if ((bits >> i & 1) == 0) logits[first + i] = kForbidden;
  }
  return any;
}

// The k most preferred, in order of preference.
std::vector<Candidate> best(std::span<const float> logits, size_t k) {
  std::vector<Candidate> heap;  // the least preferred on top
  k = std::min(k, logits.size());
  if (k == 0) return heap;
  heap.reserve(k);
  for (size_t i = 0; i < logits.size(); ++i) {
    const Candidate candidate{logits[i], static_cast<int32_t>(i)};
    if (heap.size() < k) {
      heap.push_back(candidate);
      if (heap.size() == k) std::make_heap(heap.begin(), heap.end(), better);
    } else if (candidate.logit > heap.front().logit) {
      std::pop_heap(heap.begin(), heap.end(), better);
      heap.back() = candidate;
      std::push_heap(heap.begin(), heap.end(), better);
    }
  }
  std::sort(heap.begin(), heap.end(), better);
  return heap;
}

std::vector<Candidate> top_k(std::span<const float> logits, int k) {
  constexpr size_t kHeapMost = 1024;
  if (k > 0 && static_cast<size_t>(k) <= kHeapMost) return best(logits, static_cast<size_t>(k));
  std::vector<Candidate> all(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) all[i] = {logits[i], static_cast<int32_t>(i)};
  if (k > 0 && static_cast<size_t>(k) < all.size()) {
    std::vector<Candidate> order = all;
    std::nth_element(order.begin(), order.begin() + (k - 1), order.end(), better);
    const Candidate last = order[static_cast<size_t>(k - 1)];
    std::erase_if(all, [&](const Candidate& c) { return better(last, c); });
  }
  return all;
}

// The smallest set of preferred candidates whose share of the weight at temperature 1 is at least
// p. Sums by bins of the logit and sorts only the bin in which the share is reached.
void top_p(std::vector<Candidate>& candidates, float max, float p) {
  constexpr size_t kBins = 8192;
  constexpr float kBinsPerUnit = 256.0f;
  const auto bin_of = [&](float logit) {
    const float x = (max - logit) * kBinsPerUnit;
    return x < static_cast<float>(kBins) ? static_cast<size_t>(x) : kBins - 1;
  };
  const std::vector<uint32_t> weight_of = weights(candidates, max, 1.0f);
  std::vector<uint16_t> bins(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i)
    bins[i] = static_cast<uint16_t>(bin_of(candidates[i].logit));
  std::vector<uint64_t> sums(kBins);
  uint64_t total = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    sums[bins[i]] += weight_of[i];
    total += weight_of[i];
  }
  const auto target = static_cast<uint64_t>(std::ceil(static_cast<double>(total) * p));
  size_t bin = 0;
  uint64_t before = 0;
  while (bin + 1 < kBins && before + sums[bin] < target) before += sums[bin++];

  std::vector<std::pair<Candidate, uint32_t>> order;  // of the bin
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (bins[i] == bin) order.emplace_back(candidates[i], weight_of[i]);
  }
  const auto preferred = [](const auto& a, const auto& b) { return better(a.first, b.first); };
  if (!std::is_sorted(order.begin(), order.end(), preferred)) {  // equal logits are, by their ids
    std::sort(order.begin(), order.end(), preferred);
  }
  size_t last = 0;
  while (last + 1 < order.size() && (before += order[last].second) < target) ++last;
  const Candidate worst = order[last].first;
  size_t kept = 0;  // without a branch: they are in the order of their ids
  for (const Candidate c : candidates) {
    candidates[kept] = c;
    kept += better(worst, c) ? 0 : 1;
  }
  candidates.resize(kept);
}

// The probability of every candidate is at least p times the largest one.
void min_p(std::vector<Candidate>& candidates, float max, float p) {
  const double least = static_cast<double>(max) + std::log(static_cast<double>(p));
  std::erase_if(candidates, [&](const Candidate& c) { return c.logit < least; });
}

int32_t draw(const std::vector<Candidate>& candidates, float max, float temperature,
             uint64_t random) {
  const std::vector<uint32_t> weight_of = weights(candidates, max, temperature);
  std::vector<uint64_t> sums(candidates.size());
  uint64_t total = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    total += weight_of[i];
    sums[i] = total;
  }
  // A number of [0, total) from 64 random bits.
  const auto chosen = static_cast<uint64_t>((static_cast<unsigned __int128>(random) * total) >> 64);
  const auto it = std::upper_bound(sums.begin(), sums.end(), chosen);
  return candidates[static_cast<size_t>(it - sums.begin())].token;
}

struct RawSoftmax {
  std::vector<float> logits;  // before bias and penalties
  double log_sum = 0.0;
  float logprob(int32_t token) const {
    return static_cast<float>(logits[static_cast<size_t>(token)] - log_sum);
  }
};

RawSoftmax raw_softmax(std::span<const float> logits, float max) {
  RawSoftmax raw{{logits.begin(), logits.end()}};
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - max);
  raw.log_sum = max + std::log(sum);
  return raw;
}

std::vector<TokenLogprob> likeliest(const RawSoftmax& raw, int count) {
  std::vector<TokenLogprob> top;
  for (const Candidate& c : best(raw.logits, static_cast<size_t>(count)))
    top.push_back({c.token, raw.logprob(c.token)});
  return top;
}

Error not_finite(std::span<const float> logits, int64_t step) {
  const auto bad =
      std::find_if(logits.begin(), logits.end(), [](float x) { return !std::isfinite(x); });
  return make_error(ErrorKind::runtime,
                    "the logit of token {} is {} at step {}; expected a finite number",
                    bad - logits.begin(), *bad, step);
}

Error out_of_range(const char* name, const char* range, double value) {
  return make_error(ErrorKind::usage, "{}: expected {}, got {}", name, range, value);
}

}  // namespace

Status validate(const SamplingParams& p, int64_t vocab_size) {
  // Written so that NaN fails every comparison.
  if (!(p.temperature >= 0.0f && p.temperature <= 100.0f))
    return out_of_range("temperature", "0 to 100", p.temperature);
  if (!(p.top_p >= 0.0f && p.top_p <= 1.0f)) return out_of_range("top_p", "0 to 1", p.top_p);
  if (!(p.min_p >= 0.0f && p.min_p <= 1.0f)) return out_of_range("min_p", "0 to 1", p.min_p);
  if (!(p.repetition_penalty > 0.0f && p.repetition_penalty <= 100.0f)) {
    return out_of_range("repetition_penalty", "more than 0 and at most 100", p.repetition_penalty);
  }
  if (!(p.presence_penalty >= -2.0f && p.presence_penalty <= 2.0f)) {
    return out_of_range("presence_penalty", "-2 to 2", p.presence_penalty);
  }
  if (!(p.frequency_penalty >= -2.0f && p.frequency_penalty <= 2.0f)) {
    return out_of_range("frequency_penalty", "-2 to 2", p.frequency_penalty);
  }
  for (const auto& [token, bias] : p.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return make_error(ErrorKind::usage, "logit_bias: expected token ids 0 to {}, got {}",
                        vocab_size - 1, token);
    }
    if (!(bias >= -100.0f && bias <= 100.0f)) {
      return make_error(ErrorKind::usage, "logit_bias: expected -100 to 100 for token {}, got {}",
                        token, bias);
    }
  }
  return {};
}

Result<Sampled> score(std::span<const float> logits, int32_t token, int top_logprobs) {
  const Scan state = scan(logits);
  if (!state.finite) return not_finite(logits, 0);
  const RawSoftmax raw = raw_softmax(logits, state.max);
  return Sampled{token, raw.logprob(token), likeliest(raw, top_logprobs)};
}

Sampler::Sampler(SamplingParams params) : params_(std::move(params)), random_(params_.seed) {}

Result<Sampled> Sampler::sample(std::span<float> logits, std::span<const int32_t> prompt,
                                std::span<const int32_t> output, int top_logprobs,
                                std::span<const uint64_t> allowed) {
  RK_CHECK(!logits.empty());
  Scan state = scan(logits);
  if (!state.finite) return not_finite(logits, static_cast<int64_t>(output.size()));
  RawSoftmax raw;
  Sampled result;
  if (top_logprobs >= 0) {
    raw = raw_softmax(logits, state.max);
    result.top = likeliest(raw, top_logprobs);
  }
  const bool changed = !params_.logit_bias.empty() || params_.repetition_penalty != 1.0f ||
                       params_.presence_penalty != 0.0f || params_.frequency_penalty != 0.0f;
  if (changed) {
    apply_bias(params_, logits);
    apply_penalties(params_, logits, prompt, output);
    state = scan(logits);
    if (!state.finite) {
      return make_error(ErrorKind::runtime, "a logit is too large for the penalties at step {}",
                        output.size());
    }
  }
  if (!allowed.empty()) {
    // After bias and penalties, which change every token apart from others: as if it were before.
    RK_CHECK(allowed.size() == (logits.size() + 63) / 64, "{} words of mask", allowed.size());
    if (!forbid(allowed, logits))
      return make_error(ErrorKind::runtime, "the constraint lets no token follow at step {}",
                        output.size());
    state.max = scan(logits).max;
  }
  if (params_.temperature < kGreedyTemperature) {
    result.token =
        static_cast<int32_t>(std::find(logits.begin(), logits.end(), state.max) - logits.begin());
  } else {
    std::vector<Candidate> candidates = top_k(logits, params_.top_k);
    if (params_.top_p < 1.0f) top_p(candidates, state.max, params_.top_p);
    if (params_.min_p > 0.0f) min_p(candidates, state.max, params_.min_p);
    result.token = draw(candidates, state.max, params_.temperature, random_());
  }
  if (top_logprobs >= 0) result.logprob = raw.logprob(result.token);
  return result;
}

}  // namespace ringkeep::engine
