// Activations as two int8 terms: of rows with one scale, and of prompt rows with a step for every
// 32 columns.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_quantize.cpp"
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/simd.h"
// After simd.h: they follow the target.
#include "kernels/cpu/linear_units-inl.h"
#include "kernels/cpu/rounding-inl.h"

#if HWY_COMPILER_GCC_ACTUAL  // its own intrinsics start from an undefined register
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {
#if RK_LINEAR_VECTORS

constexpr int kChunk = 64;  // columns whose sums are formed together

// The largest magnitude of x [n], n a multiple of 16, by its bits: they order NaN above infinity
// above all numbers.
HWY_INLINE float largest(const float* x, int64_t n) {
  const VI magnitude = hn::Set(DI(), 0x7fffffff);
  VI bits = hn::Zero(DI());
  for (int64_t i = 0; i < n; i += int64_t(hn::Lanes(DF())))
    bits = hn::Max(bits, hn::And(hn::BitCast(DI(), hn::LoadU(DF(), x + i)), magnitude));
  return hn::GetLane(hn::BitCast(DF(), hn::MaxOfLanes(DI(), bits)));
}

// hi [n] and, if wanted, lo [n], such that x * inverse ~ hi + lo / 256.
template <bool kLow>
HWY_INLINE void round_terms(const float* x, int64_t n, float inverse, int8_t* hi, int8_t* lo) {
  const VF shift = hn::Set(DF(), kToInteger), most = hn::Set(DF(), 127.0f);
  for (int64_t i = 0; i < n; i += int64_t(hn::Lanes(DF()))) {
    const VF t = hn::Mul(hn::LoadU(DF(), x + i), hn::Set(DF(), inverse));
    const VF high = hn::Add(t, shift);
    StoreLowBytes(high, reinterpret_cast<uint8_t*>(hi + i));
    if constexpr (kLow) {
      const VF rest = hn::Mul(hn::Sub(t, hn::Sub(high, shift)), hn::Set(DF(), 256.0f));
      const VF low = hn::Max(hn::Min(rest, most), hn::Neg(most));
      StoreLowBytes(hn::Add(low, shift), reinterpret_cast<uint8_t*>(lo + i));
    }
  }
}

// Sums of every 16 of 64 terms; those of one row of a tile are `stride` apart.
HWY_INLINE void sums_of_16(const int8_t* terms, int32_t* sums, int stride) {
  const hn::CappedTag<uint8_t, kChunk> d8;
  const hn::Repartition<uint64_t, decltype(d8)> d64;
  HWY_ALIGN uint64_t eights[kChunk / 8];
  for (int i = 0; i < kChunk; i += int(hn::Lanes(d8))) {
    const auto from_128 =
        hn::Xor(hn::LoadU(d8, reinterpret_cast<const uint8_t*>(terms + i)), hn::Set(d8, 128));
    hn::StoreU(hn::SumsOf8(from_128), d64, eights + i / 8);
  }
  for (int i = 0; i < kChunk / 16; ++i)
    sums[i * stride] = int32_t(eights[2 * i] + eights[2 * i + 1]) - 16 * 128;
}

// One row; cols is a multiple of 16, hi and lo have room for a multiple of 64.
float quantize_row(const float* x, int64_t cols, int8_t* hi, int8_t* lo, float* sums) {
  const float max = largest(x, cols);
  const bool finite = max < INFINITY;
  const bool zero = !finite || max < 0x1p-100f;
  const float inverse = zero ? 0.0f : 127.0f / max;
  round_terms</*kLow=*/true>(x, cols, inverse, hi, lo);
  for (int64_t c = 0; c < cols; c += kChunk) {  // not at once: wide loads wait for narrow stores
    int32_t high[kChunk / 16], low[kChunk / 16];
    sums_of_16(hi + c, high, 1);
    sums_of_16(lo + c, low, 1);
    for (int64_t i = 0; i < std::min(cols - c, int64_t{kChunk}) / 16; ++i)
      sums[c / 16 + i] = float(256 * high[i] + low[i]);
  }
  float* finer = sums;
  for (int64_t size = 32; size <= kMaxGroup; size *= 2) {
    float* coarser = finer + cols / (size / 2);
    for (int64_t i = 0; i < cols / size; ++i) coarser[i] = finer[2 * i] + finer[2 * i + 1];
    finer = coarser;
  }
  if (!finite) return NAN;
  return zero ? 0.0f : max / 127.0f * (1.0f / 256.0f);
}

constexpr int kTile = CoarseX::kTile;
constexpr int kRun = CoarseX::kRun;

// The steps of n rows, 0 in runs where a value is not finite (the row's scale says so) and in rows
// that fill the tile, and which runs are fine.
void find_steps(const float* const* x, int n, const CoarseX& q, int64_t row0) {
  const int64_t first = CoarseX::at_part(row0, 0, q.runs());
  float squares[kTile] = {};
  for (int r = 0; r < kTile; ++r) q.scale[row0 + r] = 1.0f;
  for (int64_t run = 0; run < q.runs(); ++run) {
    float* step = q.step + first + run * kTile;
    for (int r = 0; r < n; ++r) {
      const float max = largest(x[r] + run * kRun, std::min<int64_t>(q.cols - run * kRun, kRun));
      if (HWY_UNLIKELY(!(max < INFINITY))) q.scale[row0 + r] = NAN;
      step[r] = max;
    }
    for (int r = n; r < kTile; ++r) step[r] = 0.0f;
    for (int r = 0; r < kTile; ++r) {
      step[r] = step[r] < 0x1p-100f || !(step[r] < INFINITY) ? 0.0f : step[r] / 127.0f;
      squares[r] += step[r] * step[r];
    }
  }
  for (float& sum : squares) sum = CoarseX::kFineSquares * sum / float(q.runs());
  for (int64_t i = first; i < first + q.runs() * kTile; i += kTile)
    for (int r = 0; r < kTile; ++r) q.fine[i + r] = q.step[i + r] * q.step[i + r] > squares[r];
}

// Terms of some columns of a tile
struct Chunk {
  HWY_ALIGN int8_t hi[kTile][kChunk] = {};
  HWY_ALIGN int8_t lo[kTile][kChunk] = {};
};

// Up to 64 columns of n rows, from `column` on. `chunk` is zero in the rows that fill the tile.
HWY_INLINE void quantize_chunk(const float* const* x, int n, const CoarseX& q, int64_t row0,
                               int64_t column, Chunk& chunk) {
  constexpr int kRuns = kChunk / kRun, kSums = kChunk / 16;
  const int width = int(std::min<int64_t>(kChunk, q.cols - column));
  const int64_t first_run = CoarseX::at_part(row0, column / kRun, q.runs());
  float steps[kRuns][kTile] = {};
  uint64_t low = 0;  // not 0: a row has second terms
  for (int run = 0; run * kRun < width; ++run) {
    uint64_t fine;
    std::memcpy(&fine, q.fine + first_run + run * kTile, sizeof fine);
    low |= fine;
  }
  auto& [hi, lo] = chunk;
  if (low != 0) std::memset(lo, 0, sizeof lo);
  for (int run = 0; run * kRun < width; ++run) {
    std::memcpy(steps[run], q.step + first_run + run * kTile, sizeof steps[run]);
    const int at = run * kRun, count = std::min(kRun, width - at);
    for (int r = 0; r < n; ++r) {
      const float inverse = steps[run][r] > 0.0f ? 1.0f / steps[run][r] : 0.0f;
      if (HWY_UNLIKELY(q.fine[first_run + run * kTile + r] != 0))
        round_terms<true>(x[r] + column + at, count, inverse, hi[r] + at, lo[r] + at);
      else
        round_terms<false>(x[r] + column + at, count, inverse, hi[r] + at, nullptr);
    }
  }
  int32_t high[kSums][kTile], rest[kSums][kTile] = {};
  for (int r = 0; r < kTile; ++r) sums_of_16(hi[r], &high[0][r], kTile);
  for (int r = 0; low != 0 && r < kTile; ++r) sums_of_16(lo[r], &rest[0][r], kTile);
  const int64_t at16 = CoarseX::at_part(row0, column / 16, q.cols / 16);
  const int64_t at32 = CoarseX::at_part(row0, column / 32, q.cols / 32);
  for (int i = 0; i < width / 16; ++i) {
    const CoarseX::Sums &to = q.sums16, &both = q.sums32;
    for (int64_t r = 0, at = at16 + i * kTile; r < kTile; ++r, ++at) {
      to.x[at] = steps[i / 2][r] * (float(256 * high[i][r] + rest[i][r]) * (1.0f / 256.0f));
      to.hi[at] = -kPlainZero * high[i][r];
      to.lo[at] = -kPlainZero * rest[i][r];
    }
    if (i % 2 == 0) continue;
    for (int64_t r = 0, at = at32 + i / 2 * kTile, last = at16 + i * kTile; r < kTile;
         ++r, ++at, ++last) {
      both.x[at] = to.x[last - kTile] + to.x[last];
      both.hi[at] = to.hi[last - kTile] + to.hi[last];
      both.lo[at] = to.lo[last - kTile] + to.lo[last];
    }
  }
  const auto spread = [&](const int8_t(&terms)[kTile][kChunk], int8_t* to) {
    for (int i = 0; i < width; i += 4, to += 4 * kTile)
      for (int r = 0; r < kTile; ++r) std::memcpy(to + 4 * r, terms[r] + i, 4);
  };
  spread(hi, q.hi + q.at(row0, column));
  if (low != 0) spread(lo, q.lo + q.at(row0, column));
}

void quantize_tile(const float* const* x, int n, const CoarseX& q, int64_t row0) {
  find_steps(x, n, q, row0);
  Chunk chunk;
  for (int64_t column = 0; column < q.cols; column += kChunk)
    quantize_chunk(x, n, q, row0, column, chunk);
}

#else
float quantize_row(const float*, int64_t, int8_t*, int8_t*, float*) { return 0.0f; }
void quantize_tile(const float* const*, int, const CoarseX&, int64_t) {}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringkeep::kernels::cpu {

HWY_EXPORT(quantize_row);
HWY_EXPORT(quantize_tile);

size_t place_quantized(QuantizedX& q, int64_t rows, int64_t cols, std::byte* memory) {
  q.rows = (rows + 15) / 16 * 16;  // whole tiles
  q.cols = cols;
  // An odd number of cache lines, lest the rows of a tile share the sets of the L1 cache.
  q.stride = ((cols + 63) / 64 | 1) * 64;
  q.sum_stride = q.sums_of(2 * kMaxGroup);
  const size_t term_bytes = size_t(q.rows * q.stride);
  const size_t sum_bytes = size_t((q.rows * q.sum_stride + 15) / 16 * 64);
  if (memory != nullptr) {
    q.hi = reinterpret_cast<int8_t*>(memory);
    q.lo = q.hi + term_bytes;
    q.sums = reinterpret_cast<float*>(memory + 2 * term_bytes);
    q.scale = reinterpret_cast<float*>(memory + 2 * term_bytes + sum_bytes);
  }
  return 2 * term_bytes + sum_bytes + size_t(q.rows) * sizeof(float);
}

void quantize_x(const float* x, int64_t x_stride, int64_t row0, int64_t n, const QuantizedX& q) {
  for (int64_t r = row0; r < row0 + n; ++r)
    q.scale[r] = HWY_DYNAMIC_DISPATCH(quantize_row)(x + r * x_stride, q.cols, q.hi + r * q.stride,
                                                    q.lo + r * q.stride, q.sums + r * q.sum_stride);
}

size_t CoarseX::place(int64_t row_count, int64_t columns, std::byte* memory) {
  rows = (row_count + kTile - 1) / kTile * kTile;
  cols = columns;
  size_t used = 0;
  const auto take = [&](size_t bytes) {
    std::byte* at = memory != nullptr ? memory + used : nullptr;
    used += (bytes + 63) / 64 * 64;
    return at;
  };
  const auto floats = [&](int64_t count) {
    return reinterpret_cast<float*>(take(size_t(count * rows) * sizeof(float)));
  };
  const auto ints = [&](int64_t count) {
    return reinterpret_cast<int32_t*>(take(size_t(count * rows) * sizeof(int32_t)));
  };
  hi = reinterpret_cast<int8_t*>(take(size_t(rows * cols)));
  lo = reinterpret_cast<int8_t*>(take(size_t(rows * cols)));
  step = floats(runs());
  for (Sums* sums : {&sums16, &sums32}) {
    const int64_t count = cols / (sums == &sums16 ? 16 : 32);
    *sums = {floats(count), ints(count), ints(count)};
  }
  scale = floats(1);
  fine = reinterpret_cast<uint8_t*>(take(size_t(runs() * rows)));
  return used;
}

void coarse_quantize(const float* const* x, int n, const CoarseX& q, int64_t row0) {
  HWY_DYNAMIC_DISPATCH(quantize_tile)(x, n, q, row0);
}

}  // namespace ringkeep::kernels::cpu
#endif
