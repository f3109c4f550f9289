// Packed products with AMX: tiles of 16 rows of x by 16 outputs. The tile unit forms the integer
// dot products of a group, exactly; the float accumulation is that of every other kernel, so the
// results are the same bits.
#include "kernels/cpu/linear_kernels.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "hwy/base.h"

#if HWY_COMPILER_GCC_ACTUAL  // its own intrinsics start from an undefined register
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512dq,fma,amx-tile,amx-int8")
namespace ringkeep::kernels::cpu {
namespace {

constexpr int kTileRows = 16;  // rows of x in a tile

// Tiles: sums of the hi and the lo terms, twice so that a group's sums are stored while the next
// group's are formed; then the operands. Intrinsics want literal numbers.
#define RK_HI0 0
#define RK_LO0 1
#define RK_HI1 2
#define RK_LO1 3
#define RK_XHI 4
#define RK_XLO 5
#define RK_W 6

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t column_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// `bytes`: columns of x (and of W) that one tile product takes.
TileConfig tile_config(int bytes) {
  TileConfig config;
  for (const int sums : {RK_HI0, RK_LO0, RK_HI1, RK_LO1}) {
    config.rows[sums] = kTileRows;
    config.column_bytes[sums] = kRowBlock * 4;
  }
  for (const int x : {RK_XHI, RK_XLO}) {
    config.rows[x] = kTileRows;
    config.column_bytes[x] = uint16_t(bytes);
  }
  config.rows[RK_W] = uint8_t(bytes / 4);
  config.column_bytes[RK_W] = kRowBlock * 4;
  return config;
}

using Sums = int32_t[kTileRows][kRowBlock];

// The dot products of one group for the hi and the lo terms.
template <bool kAffine, bool kOdd>
inline void tile_group(const int8_t* hi, const int8_t* lo, int64_t x_stride, const std::byte* codes,
                       int group, int bytes, Sums* out) {
  if constexpr (kOdd) {
    _tile_zero(RK_HI1);
    _tile_zero(RK_LO1);
  } else {
    _tile_zero(RK_HI0);
    _tile_zero(RK_LO0);
  }
  for (int i = 0; i < group; i += bytes) {
    _tile_loadd(RK_W, codes + i * kRowBlock, kUnitBytes);
    _tile_loadd(RK_XHI, hi + i, x_stride);
    _tile_loadd(RK_XLO, lo + i, x_stride);
    if constexpr (kOdd) {
      if constexpr (kAffine) {
        _tile_dpbsud(RK_HI1, RK_XHI, RK_W);
        _tile_dpbsud(RK_LO1, RK_XLO, RK_W);
      } else {
        _tile_dpbssd(RK_HI1, RK_XHI, RK_W);
        _tile_dpbssd(RK_LO1, RK_XLO, RK_W);
      }
    } else {
      if constexpr (kAffine) {
        _tile_dpbsud(RK_HI0, RK_XHI, RK_W);
        _tile_dpbsud(RK_LO0, RK_XLO, RK_W);
      } else {
        _tile_dpbssd(RK_HI0, RK_XHI, RK_W);
        _tile_dpbssd(RK_LO0, RK_XLO, RK_W);
      }
    }
  }
  if constexpr (kOdd) {
    _tile_stored(RK_HI1, out[0], kUnitBytes);
    _tile_stored(RK_LO1, out[1], kUnitBytes);
  } else {
    _tile_stored(RK_HI0, out[0], kUnitBytes);
    _tile_stored(RK_LO0, out[1], kUnitBytes);
  }
}

// acc += scale * (256 * hi + lo) (+ bias * sum of x) of one group.
template <bool kAffine>
inline void add_group(const Sums* sums, const std::byte* scales, const float* x_sums,
                      int64_t sum_stride, __m512 (&acc)[kTileRows]) {
  const __m512 scale = _mm512_loadu_ps(scales);
  const __m512 bias = kAffine ? _mm512_loadu_ps(scales + kRowBlock * 4) : scale;
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
    const __m512i hi = _mm512_slli_epi32(_mm512_load_si512(sums[0][r]), 8);
    const __m512i dot = _mm512_add_epi32(hi, _mm512_load_si512(sums[1][r]));
    acc[r] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(dot), acc[r]);
    if constexpr (kAffine)
      acc[r] = _mm512_fmadd_ps(bias, _mm512_set1_ps(x_sums[r * sum_stride]), acc[r]);
  }
}

// 16 rows of x from `row` (the first `n` of them are stored) with one transcoded block.
template <bool kAffine>
HWY_NOINLINE void tile_block(const quant::WeightSpec& spec, const HostLayout& layout,
                             const std::byte* block, const QuantizedX& x, int64_t row, int64_t n,
                             const LinearOutput& out, int64_t first) {
  alignas(64) Sums sums[2][2];
  const int bytes = std::min(spec.group, 64);
  const int8_t* hi = x.hi + row * x.stride;
  const int8_t* lo = x.lo + row * x.stride;
  const float* x_sums = x.sums + row * x.sum_stride + x.sums_of(spec.group);
  const size_t step = layout.scale_bytes + layout.code_bytes;
  __m512 acc[kTileRows];
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) acc[r] = _mm512_setzero_ps();

  const auto form = [&](int64_t g) {
    const std::byte* codes = block + size_t(g) * step + layout.scale_bytes;
    const int64_t at = g * spec.group;
    if (g % 2 == 0)
      tile_group<kAffine, false>(hi + at, lo + at, x.stride, codes, spec.group, bytes, sums[g % 2]);
    else
      tile_group<kAffine, true>(hi + at, lo + at, x.stride, codes, spec.group, bytes, sums[g % 2]);
  };
  const int64_t groups = layout.groups;
  form(0);
  for (int64_t g = 0; g < groups; ++g) {
    if (g + 1 < groups) form(g + 1);
    add_group<kAffine>(sums[g % 2], block + size_t(g) * step, x_sums + g, x.sum_stride, acc);
  }

  const int64_t count = std::min<int64_t>(kRowBlock, out.weight->rows - first);
  const __mmask16 mask = __mmask16((1u << count) - 1);
  const __m512 bias =
      out.bias != nullptr ? _mm512_maskz_loadu_ps(mask, out.bias + first) : _mm512_setzero_ps();
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
    if (r >= n) break;
    __m512 y = _mm512_mul_ps(acc[r], _mm512_set1_ps(x.scale[row + r]));
    if (out.bias != nullptr) y = _mm512_add_ps(y, bias);
    _mm512_mask_storeu_ps(out.y + (row + r) * out.y_stride + first, mask, y);
  }
}

bool detect() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & (kTile | kInt8)) != (kTile | kInt8)) return false;
  // The kernel saves tile registers only for processes that asked.
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool amx_available() {
  static const bool available = detect();
  return available;
}

void amx_run(const LinearOutput& out, const QuantizedX& x, int64_t row0, int64_t n, int64_t block0,
             int64_t block1, std::byte* scratch) {
  const PackedTensor& w = *out.weight;
  const quant::WeightSpec plain = plain_spec(w.spec);
  const HostLayout layout = host_layout(plain, w.cols);
  const TileConfig config = tile_config(std::min(w.spec.group, 64));
  _tile_loadconfig(&config);
  for (int64_t b = block0; b < block1; ++b) {
    transcode_block(w, b, w.spec.zero, scratch);
    for (int64_t r = 0; r < n; r += kTileRows) {
      const int64_t rows = std::min<int64_t>(kTileRows, n - r);
      if (w.spec.kind == quant::WeightKind::affine)
        tile_block<true>(plain, layout, scratch, x, row0 + r, rows, out, b * kRowBlock);
      else
        tile_block<false>(plain, layout, scratch, x, row0 + r, rows, out, b * kRowBlock);
    }
  }
  _tile_release();
}

}  // namespace ringkeep::kernels::cpu
HWY_POP_ATTRIBUTES

#else

namespace ringkeep::kernels::cpu {
bool amx_available() { return false; }
void amx_run(const LinearOutput&, const QuantizedX&, int64_t, int64_t, int64_t, int64_t,
             std::byte*) {}
}  // namespace ringkeep::kernels::cpu
#endif
