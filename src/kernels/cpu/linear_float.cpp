// Products in float: dense weights, and packed ones when exactness is asked for.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_float.cpp"
#include <algorithm>

#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/simd.h"
// After simd.h: it follows the target.
#include "kernels/cpu/linear_units-inl.h"

HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {
#if RK_LINEAR_VECTORS

using quant::WeightKind;

template <WeightKind kKind>
HWY_INLINE VF load_weights(const std::byte* p, int64_t at) {
  if constexpr (kKind == WeightKind::dense_f16) return load_f16(p + 2 * at, 0);
  if constexpr (kKind == WeightKind::dense_bf16) return load_bf16(p + 2 * at, 0);
  return load_f32(p + 4 * at, 0);
}

// kRows rows of x with kVectors vectors of outputs; w[v] points at the first row of vector v in its
// block [cols][16]. One chain of additions an output, in ascending column.
template <WeightKind kKind, int kRows, int kVectors>
HWY_NOINLINE void products(const std::byte* const* w, int64_t cols, const float* x,
                           int64_t x_stride, float* y) {
  VF acc[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::Zero(DF());
  for (int64_t c = 0; c < cols; ++c) {
    VF weights[kVectors];
    for (int v = 0; v < kVectors; ++v) weights[v] = load_weights<kKind>(w[v], c * kRowBlock);
    for (int r = 0; r < kRows; ++r) {
      const VF value = hn::Set(DF(), x[r * x_stride + c]);
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(weights[v], value, acc[r][v]);
    }
  }
  const int64_t lanes = int64_t(hn::Lanes(DF()));
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) hn::StoreU(acc[r][v], DF(), y + (r * kVectors + v) * lanes);
}

// Registers: rows * vectors sums, the weights and one broadcast.
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
constexpr int kTile = 12;
#else
constexpr int kTile = 4;
#endif

// Outputs [first, first + kVectors * N) of all rows.
template <WeightKind kKind, int kVectors>
void strip(const std::byte* data, int64_t cols, const float* x, int64_t x_stride, int64_t row0,
           int64_t n, const LinearOutput& out, int64_t first) {
  constexpr size_t kSize = kKind == WeightKind::dense_f32 ? 4 : 2;
  const int64_t lanes = int64_t(hn::Lanes(DF()));
  const std::byte* w[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = v * lanes;  // outputs from the start of `data`
    w[v] = data + size_t(at / kRowBlock * kRowBlock * cols + at % kRowBlock) * kSize;
  }
  HWY_ALIGN float y[kTile * kVectors * kRowBlock];
  const int64_t count = std::min(kVectors * lanes, out.weight->rows - first);
  for (int64_t r = 0; r < n;) {
    const float* rows = x + (row0 + r) * x_stride;
    int64_t step = 1;
    if (n - r >= kTile) {
      step = kTile;
      products<kKind, kTile, kVectors>(w, cols, rows, x_stride, y);
    } else if (n - r >= 4) {
      step = 4;
      products<kKind, 4, kVectors>(w, cols, rows, x_stride, y);
    } else {
      products<kKind, 1, kVectors>(w, cols, rows, x_stride, y);
    }
    for (int64_t i = 0; i < step; ++i) {
      float* to = out.y + (row0 + r + i) * out.y_stride + first;
      for (int64_t o = 0; o < count; ++o) {
        const float value = y[i * kVectors * lanes + o];
        to[o] = out.bias != nullptr ? value + out.bias[first + o] : value;
      }
    }
    r += step;
  }
}

// `blocks` blocks at `data`, whose first output is `first`.
template <WeightKind kKind>
void blocks_of(const std::byte* data, int64_t cols, const float* x, int64_t x_stride, int64_t row0,
               int64_t n, const LinearOutput& out, int64_t first, int64_t blocks) {
  constexpr size_t kSize = kKind == WeightKind::dense_f32 ? 4 : 2;
  const int64_t lanes = int64_t(hn::Lanes(DF()));
  const int64_t end = std::min(first + blocks * kRowBlock, out.weight->rows);
  for (int64_t o = first; o < end;) {
    const int64_t at = o - first;
    const std::byte* from =
        data + size_t(at / kRowBlock * kRowBlock * cols + at % kRowBlock) * kSize;
    if (o + lanes < end) {
      strip<kKind, 2>(from, cols, x, x_stride, row0, n, out, o);
      o += 2 * lanes;
    } else {
      strip<kKind, 1>(from, cols, x, x_stride, row0, n, out, o);
      o += lanes;
    }
  }
}

void run(WeightKind kind, const std::byte* data, int64_t cols, const float* x, int64_t x_stride,
         int64_t row0, int64_t n, const LinearOutput& out, int64_t first, int64_t blocks) {
  switch (kind) {
    case WeightKind::dense_f16:
      return blocks_of<WeightKind::dense_f16>(data, cols, x, x_stride, row0, n, out, first, blocks);
    case WeightKind::dense_bf16:
      return blocks_of<WeightKind::dense_bf16>(data, cols, x, x_stride, row0, n, out, first,
                                               blocks);
    default:
      return blocks_of<WeightKind::dense_f32>(data, cols, x, x_stride, row0, n, out, first, blocks);
  }
}

#else
void run(quant::WeightKind, const std::byte*, int64_t, const float*, int64_t, int64_t, int64_t,
         const LinearOutput&, int64_t, int64_t) {}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringkeep::kernels::cpu {

HWY_EXPORT(run);

size_t float_scratch_bytes(int64_t cols) {
  return packed_scratch_bytes(cols) + size_t(cols) * kRowBlock * sizeof(float);
}

void float_run(const LinearOutput& out, const float* x, int64_t x_stride, int64_t row0, int64_t n,
               int64_t block0, int64_t block1, std::byte* scratch) {
  const PackedTensor& w = *out.weight;
  if (w.spec.dense()) {
    const std::byte* data = w.data + size_t(block0) * host_weight_bytes(w.spec, kRowBlock, w.cols);
    HWY_DYNAMIC_DISPATCH(run)
    (w.spec.kind, data, w.cols, x, x_stride, row0, n, out, block0 * kRowBlock, block1 - block0);
    return;
  }
  auto* floats = reinterpret_cast<float*>(scratch);
  std::byte* plain = scratch + size_t(w.cols) * kRowBlock * sizeof(float);
  for (int64_t b = block0; b < block1; ++b) {
    expand_block(w, b, plain, floats);
    HWY_DYNAMIC_DISPATCH(run)
    (quant::WeightKind::dense_f32, scratch, w.cols, x, x_stride, row0, n, out, b * kRowBlock, 1);
  }
}

}  // namespace ringkeep::kernels::cpu
#endif
