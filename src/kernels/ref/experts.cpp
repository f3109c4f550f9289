// Mixture of experts: which experts a row goes to, products of rows grouped by expert, and their
// weighted sum.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/api/host_weights.h"
#include "kernels/ref/ref.h"

namespace ringkeep::kernels::ref {
namespace {

// The scores of one row in place of its logits. Softmax divides last, by a sum in ascending order.
void score(const RouteParams& p, const float* logits, float* scores) {
  if (p.scores == RouteScores::sigmoid) {
    for (int e = 0; e < p.experts; ++e) scores[e] = 1.0f / (1.0f + std::exp(-logits[e]));
    return;
  }
  const float max = *std::max_element(logits, logits + p.experts);
  float sum = 0.0f;
  for (int e = 0; e < p.experts; ++e) sum += scores[e] = std::exp(logits[e] - max);
  for (int e = 0; e < p.experts; ++e) scores[e] /= sum;
}

// The experts and weights of one row. `scores` and `order` have room for all experts.
void choose(const RouteParams& p, int64_t row, float* scores, int32_t* order) {
  score(p, p.logits + row * p.experts, scores);
  for (int e = 0; e < p.experts; ++e) order[e] = e;
  const float* logits = p.logits + row * p.experts;
  const auto rank = [&](int32_t e) {  // logits also tell scores apart that round to 1
    const float value = p.choice_bias != nullptr ? scores[e] + p.choice_bias[e] : logits[e];
    return std::isnan(value) ? -INFINITY : value;  // an order all the same
  };
  std::partial_sort(order, order + p.used, order + p.experts, [&](int32_t a, int32_t b) {
    return rank(a) != rank(b) ? rank(a) > rank(b) : a < b;
  });
  std::sort(order, order + p.used);
  float sum = 0.0f;
  for (int j = 0; j < p.used; ++j) sum += scores[order[j]];
  for (int j = 0; j < p.used; ++j) {
    const int32_t e = order[j];
    float weight = scores[e];
    if (p.renormalize) weight /= sum;
    weight *= p.scale;
    if (p.expert_scale != nullptr) weight *= p.expert_scale[e];
    p.expert[row * p.used + j] = e;
    p.weight[row * p.used + j] = weight;
  }
}

// Places by counting; rows come in their order, so that fine ones are first.
void place(const RouteParams& p) {
  std::fill(p.begin, p.begin + p.experts + 1, 0);
  std::fill(p.fine, p.fine + p.experts, 0);
  const int64_t slots = p.rows * p.used;
  for (int64_t s = 0; s < slots; ++s) {
    ++p.begin[p.expert[s] + 1];
    if (s / p.used < p.fine_rows) ++p.fine[p.expert[s]];
  }
  for (int e = 0; e < p.experts; ++e) p.begin[e + 1] += p.begin[e];
  for (int64_t s = 0; s < slots; ++s) {  // begin[e] runs ahead to the end of e
    p.place[s] = p.begin[p.expert[s]]++;
    p.row_of[p.place[s]] = static_cast<int32_t>(s / p.used);
    if (p.place_weight == nullptr) continue;
    p.place_weight[p.place[s]] = p.weight[s];
    p.weight[s] = 1.0f;
  }
  for (int e = p.experts; e > 0; --e) p.begin[e] = p.begin[e - 1];
  p.begin[0] = 0;
}

void route(const RouteParams& p, Exec& exec) {
  constexpr int64_t kRows = 16;  // a task
  const auto experts = static_cast<size_t>(p.experts);
  const size_t bytes = (experts * (sizeof(float) + sizeof(int32_t)) + 63) / 64 * 64;
  std::byte* scratch = exec.scratch(bytes * static_cast<size_t>(exec.pool().threads()));
  exec.pool().parallel_for((p.rows + kRows - 1) / kRows, [&](int64_t task, int thread) {
    auto* scores = reinterpret_cast<float*>(scratch + bytes * static_cast<size_t>(thread));
    auto* order = reinterpret_cast<int32_t*>(scores + experts);
    for (int64_t r = task * kRows; r < std::min(p.rows, (task + 1) * kRows); ++r)
      choose(p, r, scores, order);
  });
  place(p);
}

// A linear of each group, on rows that are gathered first.
void grouped_linear(const GroupedLinearParams& p, Exec& exec) {
  Ops ops;
  add_linear_kernels(ops);
  const int64_t cols = p.outputs[0].weight->first.cols;
  std::vector<float> x;  // [rows of the group, k]
  for (int g = 0; g < p.groups; ++g) {
    const int64_t first = p.begin[g], rows = p.begin[g + 1] - first;
    if (rows == 0) continue;
    x.resize(static_cast<size_t>(rows * cols));
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = p.row_of != nullptr ? p.row_of[first + r] : first + r;
      std::copy_n(p.x + row * p.x_stride, cols, x.data() + r * cols);
    }
    for (int o = 0; o < p.n_outputs; ++o) {
      const GroupedOutput& out = p.outputs[o];
      const PackedTensor w = out.weight->at(g);
      const LinearOutput one{&w, out.bias != nullptr ? out.bias + g * w.rows : nullptr,
                             out.y + first * out.y_stride, out.y_stride};
      ops.linear.front().run({x.data(), cols, rows, &one, 1, p.exact, p.fine[g]}, exec);
    }
  }
  exec.grouped_bytes += host_grouped_bytes(p);
}

void combine(const CombineParams& p, Exec& exec) {
  exec.pool().parallel_for(p.rows, [&](int64_t r, int) {
    const float* weight = p.weight + r * p.used;
    const int32_t* place = p.place + r * p.used;
    for (int64_t i = 0; i < p.cols; ++i) {
      float sum = weight[0] * p.x[place[0] * p.cols + i];
      for (int j = 1; j < p.used; ++j) sum = std::fma(weight[j], p.x[place[j] * p.cols + i], sum);
      p.y[r * p.cols + i] = sum;
    }
  });
}

}  // namespace

void add_expert_kernels(Ops& ops) {
  ops.route.push_back({"ref", always, route});
  ops.grouped_linear.push_back({"ref", always, grouped_linear});
  ops.combine.push_back({"ref", always, combine});
}

}  // namespace ringkeep::kernels::ref
