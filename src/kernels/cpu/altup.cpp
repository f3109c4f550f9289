// Vector versions of AltUp's exchange between streams, magnitudes and activation sparsity.
#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/altup.cpp"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/register.h"
#include "kernels/cpu/simd.h"
// After simd.h: it follows the target.
#include "kernels/cpu/head_transform-inl.h"

HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void gaussian_topk(const GaussianTopKParams& p, Exec& exec) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  exec.pool().parallel_for(p.rows, [&](int64_t r, int) {
    float* x = p.x + r * p.cols;
    const float mean = Mean(x, p.cols);
    const float sigma = std::sqrt(SumOfSquares(x, p.cols, mean) / static_cast<float>(p.cols));
    const float cut = mean + p.deviations * sigma;
    const auto vcut = hn::Set(d, cut);
    int64_t i = 0;
    for (; i + lanes <= p.cols; i += lanes)
      hn::StoreU(hn::Max(hn::Zero(d), hn::Sub(hn::LoadU(d, x + i), vcut)), d, x + i);
    for (; i < p.cols; ++i) x[i] = std::max(0.0f, x[i] - cut);
  });
}

void match_rms(const MatchRmsParams& p, Exec& exec) {
  exec.pool().parallel_for(p.rows, [&](int64_t r, int) {
    float* x = p.x + r * p.cols;
    const auto n = static_cast<float>(p.cols);
    const float wanted = SumOfSquares(p.like + r * p.cols, p.cols, 0.0f) / n;
    const float found = std::max(SumOfSquares(x, p.cols, 0.0f) / n, p.floor);
    Scale(x, std::sqrt(wanted / found), p.cols);
  });
}

// out[i] = coefs[i] . m, for `count` rows of coefs [count, streams].
inline void Map(const float* coefs, const float* m, int streams, int count, float* out) {
  for (int i = 0; i < count; ++i) {
    out[i] = 0.0f;
    for (int k = 0; k < streams; ++k) out[i] = std::fma(coefs[i * streams + k], m[k], out[i]);
  }
}

// body(d, col) over all columns, in vectors and then one by one.
template <class Body>
inline void ForColumns(int64_t cols, const Body& body) {
  const D d;
  const hn::CappedTag<float, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t col = 0;
  for (; col + lanes <= cols; col += lanes) body(d, col);
  for (; col < cols; ++col) body(one, col);
}

void altup_predict(const AltUpPredictParams& p, Exec& exec) {
  const int n = p.streams;
  const int64_t stride = p.rows * p.cols;  // of streams
  exec.pool().parallel_for(p.rows, [&](int64_t r, int) {
    float c[kMostStreams * kMostStreams];
    Map(p.coefs, p.modalities + r * n, n, n * n, c);
    float* row = p.x + r * p.cols;
    ForColumns(p.cols, [&](auto d, int64_t col) {
      HWY_ALIGN float sums[kMostStreams][kLanes];  // stored once all streams have been read
      for (int i = 0; i < n; ++i) {
        auto sum = hn::LoadU(d, row + i * stride + col);
        for (int j = 0; j < n; ++j)
          sum = hn::MulAdd(hn::Set(d, c[i * n + j]), hn::LoadU(d, row + j * stride + col), sum);
        hn::StoreU(sum, d, sums[i]);
      }
      for (int i = 0; i < n; ++i) hn::StoreU(hn::LoadU(d, sums[i]), d, row + i * stride + col);
    });
  });
}

void altup_correct(const AltUpCorrectParams& p, Exec& exec) {
  const int n = p.streams;
  const int64_t stride = p.rows * p.cols;  // of streams
  exec.pool().parallel_for(p.rows, [&](int64_t r, int) {
    float c[kMostStreams];
    Map(p.coefs, p.modalities + r * n, n, n, c);
    float* row = p.x + r * p.cols;
    const float* activated = p.activated + r * p.cols;
    ForColumns(p.cols, [&](auto d, int64_t col) {
      const auto innovation =
          hn::Sub(hn::LoadU(d, activated + col), hn::LoadU(d, row + p.active * stride + col));
      for (int i = 0; i < n; ++i) {
        float* x = row + i * stride + col;
        hn::StoreU(hn::MulAdd(hn::Set(d, 1.0f + c[i]), innovation, hn::LoadU(d, x)), d, x);
      }
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringkeep::kernels::cpu {
namespace {

HWY_EXPORT(gaussian_topk);
HWY_EXPORT(match_rms);
HWY_EXPORT(altup_predict);
HWY_EXPORT(altup_correct);

}  // namespace

void add_altup_kernels(Ops& ops) {
  ops.gaussian_topk.push_back({"highway", always, RK_RUN(gaussian_topk)});
  ops.match_rms.push_back({"highway", always, RK_RUN(match_rms)});
  ops.altup_predict.push_back({"highway", always, RK_RUN(altup_predict)});
  ops.altup_correct.push_back({"highway", always, RK_RUN(altup_correct)});
}

}  // namespace ringkeep::kernels::cpu
#endif
