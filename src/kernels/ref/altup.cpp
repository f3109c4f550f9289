// Scalar references of what Gemma 3n has beside the dense ops: AltUp's exchange between the streams
// of a residual, magnitudes, and activation sparsity.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ref/ref.h"

namespace ringkeep::kernels::ref {
namespace {

double mean_square(const float* x, int64_t n, double mean = 0.0) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) sum += std::pow(static_cast<double>(x[i]) - mean, 2);
  return sum / static_cast<double>(n);
}

void gaussian_topk(const GaussianTopKParams& p, Exec& exec) {
  exec.pool().parallel_for(p.rows, [&](int64_t r, int) {
    float* x = p.x + r * p.cols;
    double mean = 0.0;
    for (int64_t i = 0; i < p.cols; ++i) mean += x[i];
    mean /= static_cast<double>(p.cols);
    const double sigma = std::sqrt(mean_square(x, p.cols, mean));
    const auto cut = static_cast<float>(mean + static_cast<double>(p.deviations) * sigma);
    for (int64_t i = 0; i < p.cols; ++i) x[i] = std::max(0.0f, x[i] - cut);
  });
}

void match_rms(const MatchRmsParams& p, Exec& exec) {
  exec.pool().parallel_for(p.rows, [&](int64_t r, int) {
    float* x = p.x + r * p.cols;
    const double wanted = mean_square(p.like + r * p.cols, p.cols);
    const double found = std::max<double>(mean_square(x, p.cols), p.floor);
    const auto factor = static_cast<float>(std::sqrt(wanted / found));
    for (int64_t i = 0; i < p.cols; ++i) x[i] *= factor;
  });
}

// out[i] = coefs[i] . m, for `count` rows of coefs [count, streams].
void map(const float* coefs, const float* m, int streams, int count, float* out) {
  for (int i = 0; i < count; ++i) {
    out[i] = 0.0f;
    for (int k = 0; k < streams; ++k) out[i] = std::fma(coefs[i * streams + k], m[k], out[i]);
  }
}

void altup_predict(const AltUpPredictParams& p, Exec& exec) {
  const int n = p.streams;
  exec.pool().parallel_for(p.rows, [&](int64_t r, int) {
    std::vector<float> c(static_cast<size_t>(n * n)), x(static_cast<size_t>(n));
    map(p.coefs, p.modalities + r * n, n, n * n, c.data());
    for (int64_t col = 0; col < p.cols; ++col) {
      const auto at = [&](int i) -> float& { return p.x[(i * p.rows + r) * p.cols + col]; };
      for (int i = 0; i < n; ++i) x[static_cast<size_t>(i)] = at(i);
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
          at(i) = std::fma(c[static_cast<size_t>(i * n + j)], x[static_cast<size_t>(j)], at(i));
    }
  });
}

void altup_correct(const AltUpCorrectParams& p, Exec& exec) {
  const int n = p.streams;
  exec.pool().parallel_for(p.rows, [&](int64_t r, int) {
    std::vector<float> c(static_cast<size_t>(n));
    map(p.coefs, p.modalities + r * n, n, n, c.data());
    for (int64_t col = 0; col < p.cols; ++col) {
      const auto at = [&](int i) -> float& { return p.x[(i * p.rows + r) * p.cols + col]; };
      const float innovation = p.activated[r * p.cols + col] - at(p.active);
      for (int i = 0; i < n; ++i)
        at(i) = std::fma(1.0f + c[static_cast<size_t>(i)], innovation, at(i));
    }
  });
}

}  // namespace

void add_altup_kernels(Ops& ops) {
  ops.gaussian_topk.push_back({"ref", always, gaussian_topk});
  ops.match_rms.push_back({"ref", always, match_rms});
  ops.altup_predict.push_back({"ref", always, altup_predict});
  ops.altup_correct.push_back({"ref", always, altup_correct});
}

}  // namespace ringkeep::kernels::ref
