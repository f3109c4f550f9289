// Scores of one row and one page to weights: dequantization, soft cap, mask, running softmax in
// base 2, and P as unsigned bytes. Included once per SIMD target.
#if defined(RINGKEEP_KERNELS_CPU_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGKEEP_KERNELS_CPU_SOFTMAX_INL_H_
#undef RINGKEEP_KERNELS_CPU_SOFTMAX_INL_H_
#else
#define RINGKEEP_KERNELS_CPU_SOFTMAX_INL_H_
#endif

#include <cmath>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/attention_tiles-inl.h"
#include "kernels/cpu/rounding-inl.h"

#if HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE
HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float kLog2E = 1.44269504088896341f;
// Numerators of P below this (of a largest weight of 1) are nothing; also keeps 255 / x finite.
constexpr float kNegligible = 1e-30f;

// 2^x for x <= 0; exactly 1 at 0, 0 below 2^-126. Taylor series over [-1/2, 1/2]: 1.2e-7 relative.
HWY_INLINE hn::Vec<F32> Exp2(F32 d, hn::Vec<F32> x) {
  const I32 di;
  const auto shifted = hn::Add(hn::Max(x, hn::Set(d, -126.0f)), hn::Set(d, kToInteger));
  const auto f = hn::Sub(hn::Max(x, hn::Set(d, -126.0f)), hn::Sub(shifted, hn::Set(d, kToInteger)));
  auto y = hn::Set(d, 1.5403530393381608e-4f);
  y = hn::MulAdd(y, f, hn::Set(d, 1.3333558146428443e-3f));
  y = hn::MulAdd(y, f, hn::Set(d, 9.6181291076284772e-3f));
  y = hn::MulAdd(y, f, hn::Set(d, 5.5504108664821580e-2f));
  y = hn::MulAdd(y, f, hn::Set(d, 2.4022650695910072e-1f));
  y = hn::MulAdd(y, f, hn::Set(d, 6.9314718055994531e-1f));
  y = hn::MulAdd(y, f, hn::Set(d, 1.0f));
  // The integer goes to the exponent; the bits above it are shifted out.
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  const auto scaled = hn::BitCast(d, hn::Add(hn::BitCast(di, y), exponent));
  return hn::IfThenElseZero(hn::Ge(x, hn::Set(d, -126.0f)), scaled);
}

HWY_INLINE float Exp2(float x) {
  const F32 d;
  return hn::GetLane(Exp2(d, hn::Set(d, x)));
}

// cap * tanh(x / cap) by tanh(|y|) = (1 - e) / (1 + e), e = exp(-2 |y|)
HWY_INLINE hn::Vec<F32> SoftCap(F32 d, hn::Vec<F32> x, float cap) {
  const auto magnitude = hn::Mul(hn::Abs(x), hn::Set(d, -2.0f * kLog2E / cap));
  const auto e = Exp2(d, magnitude);
  const auto one = hn::Set(d, 1.0f);
  const auto y = hn::Mul(hn::Set(d, cap), hn::Div(hn::Sub(one, e), hn::Add(one, e)));
  return hn::CopySign(y, x);
}

// score[r][t] (+)= (dots[r][t] - zero * sum[r]) * scale[t] (+ bias[t] * sum[r]), for one group of
// channels; sum: of the group's query bytes, rows sum_stride apart.
HWY_INLINE void AddGroup(const int32_t* dots, int rows, int32_t zero, const int32_t* sums,
                         int sum_stride, const float* scale, const float* bias, bool first,
                         float* score) {
  const F32 d;
  const I32 di;
  for (int t = 0; t < kPageTokens; t += kLanes) {
    const auto s = hn::LoadU(d, scale + t);
    for (int r = 0; r < rows; ++r) {
      const int32_t sum = sums[r * sum_stride];
      float* to = score + r * kPageTokens + t;
      const auto centred =
          hn::Sub(hn::LoadU(di, dots + r * kPageTokens + t), hn::Set(di, zero * sum));
      const auto dot = hn::ConvertTo(d, centred);
      auto y = first ? hn::Mul(dot, s) : hn::MulAdd(dot, s, hn::LoadU(d, to));
      if (bias != nullptr)
        y = hn::MulAdd(hn::LoadU(d, bias + t), hn::Set(d, static_cast<float>(sum)), y);
      hn::StoreU(y, d, to);
    }
  }
}

// The running softmax of a row: the largest score so far (times log2 e) and the sum of weights.
struct RowState {
  float top = -INFINITY;
  float total = 0.0f;
};

// Rows that are worked on side by side: each alone would wait for its own sums.
constexpr int kSoftmaxRows = kLanes == 16 ? 4 : 1;

// In: score[r][t] = q . k[t] in units of unit[r]; visible[r] has a bit per token, one at least.
// Out: score[r][t] = 2^(score - top), 0 where not visible; alpha: the factor of what was summed
// before.
template <int kRows>
HWY_INLINE void Softmax(float* HWY_RESTRICT score, const uint64_t* visible, const float* unit,
                        float cap, RowState* state, float* HWY_RESTRICT alpha) {
  const F32 d;
  const auto low = hn::Set(d, -INFINITY);
  hn::Vec<F32> x[kRows][kColumns], largest[kRows];
  for (int r = 0; r < kRows; ++r) {
    const auto factor = hn::Set(d, cap > 0.0f ? unit[r] : unit[r] * kLog2E);
    largest[r] = low;
    for (int i = 0; i < kColumns; ++i) {
      uint8_t bits[8];
      const uint64_t shifted = visible[r] >> (i * kLanes);
      std::memcpy(bits, &shifted, sizeof(bits));
      auto y = hn::Mul(hn::LoadU(d, score + r * kPageTokens + i * kLanes), factor);
      if (cap > 0.0f) y = hn::Mul(SoftCap(d, y, cap), hn::Set(d, kLog2E));
      x[r][i] = hn::IfThenElse(hn::LoadMaskBits(d, bits), y, low);
      largest[r] = hn::Max(largest[r], x[r][i]);
    }
  }
  hn::Vec<F32> sum[kRows];
  float top[kRows];
  for (int r = 0; r < kRows; ++r) {
    top[r] = std::max(state[r].top, hn::GetLane(hn::MaxOfLanes(d, largest[r])));
    alpha[r] = state[r].top == top[r] ? 1.0f : Exp2(state[r].top - top[r]);
    sum[r] = hn::Zero(d);
  }
  for (int i = 0; i < kColumns; ++i)
    for (int r = 0; r < kRows; ++r) {
      const auto e = Exp2(d, hn::Sub(x[r][i], hn::Set(d, top[r])));
      sum[r] = hn::Add(sum[r], e);
      hn::StoreU(e, d, score + r * kPageTokens + i * kLanes);
    }
  for (int r = 0; r < kRows; ++r)
    state[r] = {top[r], state[r].total * alpha[r] + hn::GetLane(hn::SumOfLanes(d, sum[r]))};
}

// P of one group of V's channels: p[r][t] = round(255 w / largest w of the row), w = weight[r][t] *
// |scale[t] of V|; rows of p are p_stride apart. unit: of P. Tokens without weight are left out
// whatever their scale holds.
template <int kRows>
HWY_INLINE void WeightBytes(const float* HWY_RESTRICT weight, const float* HWY_RESTRICT scale,
                            uint8_t* HWY_RESTRICT p, int p_stride, float* HWY_RESTRICT unit) {
  const F32 d;
  hn::Vec<F32> w[kRows][kColumns], largest[kRows];
  for (int r = 0; r < kRows; ++r) {
    largest[r] = hn::Zero(d);
    for (int i = 0; i < kColumns; ++i) {
      const auto e = hn::LoadU(d, weight + r * kPageTokens + i * kLanes);
      w[r][i] =
          hn::IfThenElseZero(hn::Gt(e, hn::Zero(d)), hn::Mul(e, hn::LoadU(d, scale + i * kLanes)));
      largest[r] = hn::Max(largest[r], w[r][i]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const float top = hn::GetLane(hn::MaxOfLanes(d, largest[r]));
    const auto inverse = hn::Set(d, top > kNegligible ? 255.0f / top : 0.0f);
    for (int i = 0; i < kColumns; ++i)
      StoreLowBytes(hn::Add(hn::Mul(w[r][i], inverse), hn::Set(d, kToInteger)),
                    p + r * p_stride + i * kLanes);
    unit[r] = top > kNegligible ? top / 255.0f : 0.0f;
  }
}

// sum of weight * bias over the page
HWY_INLINE float WeightedBias(const float* HWY_RESTRICT weight, const float* HWY_RESTRICT bias) {
  const F32 d;
  auto sum = hn::Zero(d);
  for (int t = 0; t < kPageTokens; t += kLanes) {
    const auto e = hn::LoadU(d, weight + t);
    sum = hn::Add(sum,
                  hn::IfThenElseZero(hn::Gt(e, hn::Zero(d)), hn::Mul(e, hn::LoadU(d, bias + t))));
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// out = out * a + x * b
HWY_INLINE void Blend(float* HWY_RESTRICT out, float a, const float* HWY_RESTRICT x, float b,
                      int n) {
  const F32 d;
  for (int i = 0; i < n; i += kLanes)
    hn::StoreU(hn::MulAdd(hn::LoadU(d, out + i), hn::Set(d, a),
                          hn::Mul(hn::LoadU(d, x + i), hn::Set(d, b))),
               d, out + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
#endif
