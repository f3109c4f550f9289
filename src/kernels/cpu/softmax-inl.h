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
  const auto clamped = hn::Max(x, hn::Set(d, -126.0f));
  const auto whole = hn::Round(clamped);
  const auto f = hn::Sub(clamped, whole);
  auto y = hn::Set(d, 1.5403530393381608e-4f);
  y = hn::MulAdd(y, f, hn::Set(d, 1.3333558146428443e-3f));
  y = hn::MulAdd(y, f, hn::Set(d, 9.6181291076284772e-3f));
  y = hn::MulAdd(y, f, hn::Set(d, 5.5504108664821580e-2f));
  y = hn::MulAdd(y, f, hn::Set(d, 2.4022650695910072e-1f));
  y = hn::MulAdd(y, f, hn::Set(d, 6.9314718055994531e-1f));
  y = hn::MulAdd(y, f, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, whole), hn::Set(di, 127)));
  return hn::IfThenElseZero(hn::Ge(x, hn::Set(d, -126.0f)), hn::Mul(y, hn::BitCast(d, exponent)));
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

// score[t] (+)= (dots[t] - zero) * scale[t] (+ bias[t] * queries), for one group of channels
HWY_INLINE void AddGroup(const int32_t* dots, int32_t zero, const float* scale, const float* bias,
                         float queries, bool first, float* score) {
  const F32 d;
  const I32 di;
  for (int t = 0; t < kPageTokens; t += kLanes) {
    const auto dot = hn::ConvertTo(d, hn::Sub(hn::LoadU(di, dots + t), hn::Set(di, zero)));
    const auto s = hn::LoadU(d, scale + t);
    auto y = first ? hn::Mul(dot, s) : hn::MulAdd(dot, s, hn::LoadU(d, score + t));
    if (bias != nullptr) y = hn::MulAdd(hn::LoadU(d, bias + t), hn::Set(d, queries), y);
    hn::StoreU(y, d, score + t);
  }
}

// The running softmax of a row: the largest score so far (times log2 e) and the sum of weights.
struct RowState {
  float top = -INFINITY;
  float total = 0.0f;
};

// In: score[t] = q . k[t] in units of `unit`; `visible` has a bit per token, one at least.
// Out: score[t] = 2^(score - top), 0 where not visible. Returns the factor of what was summed
// before.
HWY_INLINE float Softmax(float* HWY_RESTRICT score, uint64_t visible, float unit, float cap,
                         RowState& state) {
  const F32 d;
  uint8_t bits[8];
  const auto mask = [&](int t) {
    const uint64_t shifted = visible >> t;
    std::memcpy(bits, &shifted, sizeof(bits));
    return hn::LoadMaskBits(d, bits);
  };
  const auto low = hn::Set(d, -INFINITY);
  const auto factor = hn::Set(d, cap > 0.0f ? unit : unit * kLog2E);
  auto largest = low;
  for (int t = 0; t < kPageTokens; t += kLanes) {
    auto x = hn::Mul(hn::LoadU(d, score + t), factor);
    if (cap > 0.0f) x = hn::Mul(SoftCap(d, x, cap), hn::Set(d, kLog2E));
    x = hn::IfThenElse(mask(t), x, low);
    largest = hn::Max(largest, x);
    hn::StoreU(x, d, score + t);
  }
  const float top = std::max(state.top, hn::GetLane(hn::MaxOfLanes(d, largest)));
  const float alpha = state.top == top ? 1.0f : Exp2(state.top - top);
  auto sum = hn::Zero(d);
  const auto vtop = hn::Set(d, top);
  for (int t = 0; t < kPageTokens; t += kLanes) {
    const auto e = Exp2(d, hn::Sub(hn::LoadU(d, score + t), vtop));
    sum = hn::Add(sum, e);
    hn::StoreU(e, d, score + t);
  }
  state.top = top;
  state.total = state.total * alpha + hn::GetLane(hn::SumOfLanes(d, sum));
  return alpha;
}

// P of one group of V's channels: p[t] = round(255 w / largest w), w = weight * |scale of V|.
// Returns the unit of P. Tokens without weight are left out whatever their scale holds.
HWY_INLINE float WeightBytes(const float* HWY_RESTRICT weight, const float* HWY_RESTRICT scale,
                             uint8_t* HWY_RESTRICT p) {
  const F32 d;
  const hn::Rebind<uint8_t, F32> d8;
  hn::Vec<F32> w[kColumns];
  auto largest = hn::Zero(d);
  for (int i = 0; i < kColumns; ++i) {
    const auto e = hn::LoadU(d, weight + i * kLanes);
    w[i] = hn::IfThenElseZero(hn::Gt(e, hn::Zero(d)), hn::Mul(e, hn::LoadU(d, scale + i * kLanes)));
    largest = hn::Max(largest, w[i]);
  }
  const float top = hn::GetLane(hn::MaxOfLanes(d, largest));
  const auto inverse = hn::Set(d, top > kNegligible ? 255.0f / top : 0.0f);
  for (int i = 0; i < kColumns; ++i)
    hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(hn::Mul(w[i], inverse))), d8, p + i * kLanes);
  return top > kNegligible ? top / 255.0f : 0.0f;
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
