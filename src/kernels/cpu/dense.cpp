// Vector versions of the small float32 ops.
#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dense.cpp"
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

// Rows in tasks of about kTaskElements values: one row of a decode step is no parallel job.
constexpr int64_t kTaskElements = 16384;

template <typename Body>
inline void for_rows(Exec& exec, int64_t rows, int64_t elements_per_row, const Body& body) {
  const int64_t step = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, elements_per_row));
  exec.pool().parallel_for((rows + step - 1) / step, [&](int64_t task, int) {
    const int64_t end = std::min(rows, (task + 1) * step);
    for (int64_t r = task * step; r < end; ++r) body(r);
  });
}

void rms_norm(const RmsNormParams& p, Exec& exec) {
  for_rows(exec, p.rows, p.cols, [&](int64_t r) {
    const float* x = p.x + r * p.x_stride;
    NormRow(x, p.weight, p.residual != nullptr ? p.residual + r * p.y_stride : nullptr,
            p.y + r * p.y_stride, p.cols, p.eps, p.centred ? Mean(x, p.cols) : 0.0f);
  });
}

void norm_rope(const NormRopeParams& p, Exec& exec) {
  for_rows(exec, p.rows, static_cast<int64_t>(p.heads) * p.dim, [&](int64_t r) {
    for (int h = 0; h < p.heads; ++h) {
      float* x = p.x + r * p.x_stride + static_cast<int64_t>(h) * p.dim;  // [dim]
      TransformHead(p.transform, r, h, p.dim, x, x);
    }
  });
}

// e^x for |x| <= 88: 2^n times a degree-6 polynomial on |r| <= ln2/2 (relative error about 2e-7).
template <class V>
inline V exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  x = hn::Min(hn::Max(x, hn::Set(d, -87.0f)), hn::Set(d, 88.0f));
  const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.4426950408889634f)));
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);  // ln2 in two parts
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto e = hn::Set(d, 1.0f / 720);
  e = hn::MulAdd(e, r, hn::Set(d, 1.0f / 120));
  e = hn::MulAdd(e, r, hn::Set(d, 1.0f / 24));
  e = hn::MulAdd(e, r, hn::Set(d, 1.0f / 6));
  e = hn::MulAdd(e, r, hn::Set(d, 0.5f));
  e = hn::MulAdd(e, r, hn::Set(d, 1.0f));
  e = hn::MulAdd(e, r, hn::Set(d, 1.0f));
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  return hn::Mul(e, hn::BitCast(d, power));
}

// Both activations are x * sigmoid(t): silu with t = x; the tanh form of GELU with
// t = 2 * sqrt(2/pi) * (x + 0.044715 x^3), since (1 + tanh(u)) / 2 = sigmoid(2u).
template <class V>
inline V activate(D d, V x, GluKind kind) {
  auto t = x;
  if (kind == GluKind::gelu_tanh) {
    const auto cubic = hn::Mul(hn::Mul(hn::Mul(x, x), x), hn::Set(d, 0.044715f));
    t = hn::Mul(hn::Add(x, cubic), hn::Set(d, 1.5957691216057308f));
  }
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), exp(d, hn::Neg(t))));
}

// One vector of a gated unit. GPT-OSS: x * sigmoid(alpha * x) * (up + 1), both cut off.
template <class V>
inline V gated(D d, V gate, V up, const GluParams& p) {
  if (p.kind != GluKind::clamped_swiglu) return hn::Mul(activate(d, gate, p.kind), up);
  const auto limit = hn::Set(d, p.limit);
  gate = hn::Min(gate, limit);
  up = hn::Min(hn::Max(up, hn::Neg(limit)), limit);
  const auto t = hn::Mul(gate, hn::Set(d, -p.alpha));
  const auto share = hn::Div(gate, hn::Add(hn::Set(d, 1.0f), exp(d, t)));
  return hn::Mul(share, hn::Add(up, hn::Set(d, 1.0f)));
}

void glu(const GluParams& p, Exec& exec) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for_rows(exec, p.rows, p.cols, [&](int64_t r) {
    const float* gate = p.gate + r * p.stride;
    const float* up = p.up + r * p.stride;
    float* y = p.y + r * p.stride;
    int64_t i = 0;
    for (; i + lanes <= p.cols; i += lanes)
      hn::StoreU(gated(d, hn::LoadU(d, gate + i), hn::LoadU(d, up + i), p), d, y + i);
    if (i < p.cols) {  // the tail through a padded vector: the same arithmetic
      HWY_ALIGN float g[kLanes] = {};
      HWY_ALIGN float u[kLanes] = {};
      std::copy(gate + i, gate + p.cols, g);
      std::copy(up + i, up + p.cols, u);
      hn::Store(gated(d, hn::Load(d, g), hn::Load(d, u), p), d, g);
      std::copy_n(g, p.cols - i, y + i);
    }
  });
}

void combine(const CombineParams& p, Exec& exec) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for_rows(exec, p.rows, p.cols * p.used, [&](int64_t r) {
    const float* weight = p.weight + r * p.used;  // [used]
    const int32_t* place = p.place + r * p.used;  // [used]
    float* y = p.y + r * p.cols;
    for (int64_t i = 0; i < p.cols; i += lanes) {
      const int64_t n = std::min(lanes, p.cols - i);
      const auto load = [&](int j) {
        const float* x = p.x + place[j] * p.cols + i;
        if (n == lanes) return hn::LoadU(d, x);
        HWY_ALIGN float padded[kLanes] = {};
        std::copy_n(x, n, padded);
        return hn::Load(d, padded);
      };
      auto sum = hn::Mul(hn::Set(d, weight[0]), load(0));
      for (int j = 1; j < p.used; ++j) sum = hn::MulAdd(hn::Set(d, weight[j]), load(j), sum);
      if (n == lanes) {
        hn::StoreU(sum, d, y + i);
        continue;
      }
      HWY_ALIGN float padded[kLanes];
      hn::Store(sum, d, padded);
      std::copy_n(padded, n, y + i);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringkeep::kernels::cpu {
namespace {

HWY_EXPORT(rms_norm);
HWY_EXPORT(norm_rope);
HWY_EXPORT(glu);
HWY_EXPORT(combine);

}  // namespace

void add_dense_kernels(Ops& ops) {
  ops.rms_norm.push_back({"highway", always, RK_RUN(rms_norm)});
  ops.norm_rope.push_back({"highway", always, RK_RUN(norm_rope)});
  ops.glu.push_back({"highway", always, RK_RUN(glu)});
  ops.combine.push_back({"highway", always, RK_RUN(combine)});
}

}  // namespace ringkeep::kernels::cpu
#endif
