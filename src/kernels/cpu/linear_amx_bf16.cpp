// Products of prompt rows with AMX in bf16. Weights are unpacked once for all rows, scale and bias
// included, so that a sum runs over all columns inside the tile unit. Its arithmetic (Intel's
// architecture manual, TDPBF16PS): of 32 columns the even and the odd ones are each summed by fused
// multiply-adds from zero, in ascending order, and the two sums are added to the accumulator.
#include "kernels/cpu/linear_kernels.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "hwy/base.h"

#if HWY_COMPILER_GCC_ACTUAL  // its own intrinsics start from an undefined register
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,amx-tile,amx-bf16")
namespace ringkeep::kernels::cpu {
namespace {

using quant::WeightKind;

constexpr int kTileRows = TiledX::kTileRows;  // rows of x, or pairs of columns
constexpr int kTileCols = 32;                 // columns in a tile
constexpr int kTileBytes = TiledX::kTileBytes;
constexpr int64_t kPanel = 2 * kRowBlock;       // outputs formed together
constexpr int64_t kRowStep = TiledX::kRowStep;  // rows formed together
constexpr int64_t kPanelRows = 1024;  // of x, at most: weights are unpacked once for these

// Tiles: 2 x 2 sums, two row tiles of x, two blocks of outputs. Intrinsics want literal numbers.
#define RK_C00 0
#define RK_C01 1
#define RK_C10 2
#define RK_C11 3
#define RK_X0 4
#define RK_X1 5
#define RK_W0 6
#define RK_W1 7

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t column_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

TileConfig whole_tiles() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.rows[tile] = kTileRows;
    config.column_bytes[tile] = 64;
  }
  return config;
}

// Columns [first, first + 16) of x, of which `cols` are there; the rest are 0.
inline __m512 load_columns(const float* x, int64_t first, int64_t cols) {
  const int64_t count = std::clamp<int64_t>(cols - first, 0, 16);
  return _mm512_maskz_loadu_ps(__mmask16((1u << count) - 1), x + first);
}
inline __m512 low_floats(__m512i bf16) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(bf16)), 16));
}
inline __m512 high_floats(__m512i bf16) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(bf16, 1)), 16));
}

}  // namespace

void amx_bf16_fill(const TiledX& tiled, const IndexedX& rows, int64_t cols, int64_t row0,
                   int64_t n) {
  for (int64_t r = row0; r < row0 + n; ++r) {
    const bool there = r < rows.count;
    const float* x = rows.row(there ? r : 0);
    for (int64_t t = 0; t < tiled.col_tiles; ++t) {
      std::byte* to = tiled.tile(r / kTileRows, t) + r % kTileRows * 64;
      __m512 low = load_columns(x, t * kTileCols, there ? cols : 0);
      __m512 high = load_columns(x, t * kTileCols + 16, there ? cols : 0);
      for (int term = 0; term < tiled.terms; ++term) {
        const auto rounded = __m512i(_mm512_cvtne2ps_pbh(high, low));
        _mm512_store_si512(to + term * kTileBytes, rounded);
        low = _mm512_sub_ps(low, low_floats(rounded));
        high = _mm512_sub_ps(high, high_floats(rounded));
      }
    }
  }
}

namespace {

// Column pairs as the tile unit wants them: low and high halves of 16 outputs each, interleaved.
inline __m512i interleave(__m512i halves) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, halves);
}

// Tile of columns [32 * t, ...) of one of the two blocks of a panel [tiles][2][16 pairs][16][2].
inline std::byte* panel_pair(std::byte* panel, int block, int64_t column) {
  return panel + (column / kTileCols * 2 + block) * kTileBytes + column % kTileCols / 2 * 64;
}

inline __m512 weights(__m512i codes, __m512 scale, __m512 bias) {
  return _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(codes), bias);
}

// A block that was transcoded to 8-bit codes and f32 scales, as bf16.
void expand_codes(const quant::WeightSpec& plain, const HostLayout& layout, const std::byte* block,
                  std::byte* panel, int which) {
  const bool affine = plain.kind == WeightKind::affine;
  const __m512i byte = _mm512_set1_epi32(255);
  int64_t column = 0;
  for (int64_t g = 0; g < layout.groups; ++g) {
    const __m512 scale = _mm512_loadu_ps(block);
    const __m512 bias = affine ? _mm512_loadu_ps(block + kRowBlock * 4)
                               : _mm512_mul_ps(scale, _mm512_set1_ps(float(-plain.zero)));
    const std::byte* codes = block + layout.scale_bytes;
    for (int i = 0; i < plain.group; i += 4, codes += kUnitBytes, column += 4) {
      const __m512i four = _mm512_loadu_si512(codes);
      const __m512 a = weights(_mm512_and_si512(four, byte), scale, bias);
      const __m512 b = weights(_mm512_and_si512(_mm512_srli_epi32(four, 8), byte), scale, bias);
      const __m512 c = weights(_mm512_and_si512(_mm512_srli_epi32(four, 16), byte), scale, bias);
      const __m512 d = weights(_mm512_srli_epi32(four, 24), scale, bias);
      std::byte* to = panel_pair(panel, which, column);
      _mm512_store_si512(to, interleave(__m512i(_mm512_cvtne2ps_pbh(b, a))));
      _mm512_store_si512(to + 64, interleave(__m512i(_mm512_cvtne2ps_pbh(d, c))));
    }
    block += layout.scale_bytes + layout.code_bytes;
  }
}

// A block of dense bf16 weights [cols][16].
void expand_dense(const std::byte* block, int64_t cols, std::byte* panel, int which) {
  int64_t column = 0;
  for (; column + 2 <= cols; column += 2, block += 64)
    _mm512_store_si512(panel_pair(panel, which, column), interleave(_mm512_loadu_si512(block)));
  if (column < cols)
    _mm512_store_si512(
        panel_pair(panel, which, column),
        interleave(_mm512_zextsi256_si512(_mm256_loadu_si256((const __m256i*)block))));
}

// 32 rows from row tile `row_tile` on with a whole panel; sums [32][32].
template <int kTerms>
HWY_NOINLINE void panel_products(const TiledX& x, int64_t row_tile, const std::byte* panel,
                                 float* sums) {
  _tile_zero(RK_C00);
  _tile_zero(RK_C01);
  _tile_zero(RK_C10);
  _tile_zero(RK_C11);
  const std::byte* x0 = x.tile(row_tile, 0);
  const std::byte* x1 = x.tile(row_tile + 1, 0);
  for (int64_t t = 0; t < x.col_tiles; ++t, panel += 2 * kTileBytes) {
    _tile_loadd(RK_W0, panel, 64);
    _tile_loadd(RK_W1, panel + kTileBytes, 64);
#pragma GCC unroll 2
    for (int term = 0; term < kTerms; ++term, x0 += kTileBytes, x1 += kTileBytes) {
      _tile_loadd(RK_X0, x0, 64);
      _tile_dpbf16ps(RK_C00, RK_X0, RK_W0);
      _tile_dpbf16ps(RK_C01, RK_X0, RK_W1);
      _tile_loadd(RK_X1, x1, 64);
      _tile_dpbf16ps(RK_C10, RK_X1, RK_W0);
      _tile_dpbf16ps(RK_C11, RK_X1, RK_W1);
    }
  }
  _tile_stored(RK_C00, sums, kPanel * 4);
  _tile_stored(RK_C01, sums + kRowBlock, kPanel * 4);
  _tile_stored(RK_C10, sums + kTileRows * kPanel, kPanel * 4);
  _tile_stored(RK_C11, sums + kTileRows * kPanel + kRowBlock, kPanel * 4);
}

// sums [32][32] of `n` rows from `row` on, and of `count` outputs from `first` on, into the output.
void store_sums(const float* sums, const LinearOutput& out, int64_t row, int64_t n, int64_t first,
                int64_t count) {
  for (int64_t i = 0; i < kPanel; i += kRowBlock) {
    const int64_t left = std::clamp<int64_t>(count - i, 0, kRowBlock);
    if (left == 0) break;
    const __mmask16 mask = __mmask16((1u << left) - 1);
    const __m512 bias = out.bias != nullptr ? _mm512_maskz_loadu_ps(mask, out.bias + first + i)
                                            : _mm512_setzero_ps();
    for (int64_t r = 0; r < n; ++r) {
      __m512 y = _mm512_load_ps(sums + r * kPanel + i);
      if (out.bias != nullptr) y = _mm512_add_ps(y, bias);
      _mm512_mask_storeu_ps(out.y + (row + r) * out.y_stride + first + i, mask, y);
    }
  }
}

size_t panel_bytes(int64_t col_tiles) { return size_t(col_tiles) * 2 * kTileBytes; }

void run_panel(const LinearOutput& out, const TiledX& x, int64_t panel, int64_t row0, int64_t row1,
               std::byte* scratch) {
  const PackedTensor& w = *out.weight;
  const quant::WeightSpec plain = plain_spec(w.spec);
  const int64_t blocks = (w.rows + kRowBlock - 1) / kRowBlock;
  std::byte* codes = scratch + panel_bytes(x.col_tiles);
  // Columns past the last, and a second block that is not there.
  if (w.cols % kTileCols != 0)
    std::memset(scratch + panel_bytes(x.col_tiles - 1), 0, 2 * kTileBytes);
  for (int which = 0; which < 2; ++which) {
    const int64_t b = 2 * panel + which;
    if (b >= blocks) break;  // whatever is there: nobody reads those sums
    if (w.spec.dense()) {
      const size_t block_bytes = host_weight_bytes(w.spec, kRowBlock, w.cols);
      expand_dense(w.data + size_t(b) * block_bytes, w.cols, scratch, which);
    } else {
      transcode_block(w, b, plain_offset(w.spec), codes);
      expand_codes(plain, host_layout(plain, w.cols), codes, scratch, which);
    }
  }
  const int64_t first = panel * kPanel;
  const int64_t count = std::min(kPanel, w.rows - first);
  alignas(64) float sums[kRowStep * kPanel];
  for (int64_t r = row0; r < row1; r += kRowStep) {
    if (x.terms == 2)
      panel_products<2>(x, r / kTileRows, scratch, sums);
    else
      panel_products<1>(x, r / kTileRows, scratch, sums);
    store_sums(sums, out, r, std::min(kRowStep, row1 - r), first, count);
  }
}

bool detect() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kAmxBf16 = 1u << 22, kAvx512Bf16 = 1u << 5;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAmxBf16) == 0) return false;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a & kAvx512Bf16) == 0) return false;
  return amx_available();  // has asked the kernel for the tile registers
}

}  // namespace

bool amx_bf16_available() {
  static const bool available = detect();
  return available;
}

size_t amx_bf16_scratch_bytes(const TiledX& x, int64_t cols) {
  return panel_bytes(x.col_tiles) + (packed_scratch_bytes(cols) + 63) / 64 * 64;
}

int64_t amx_bf16_panels(const PackedTensor& w) { return (w.rows + kPanel - 1) / kPanel; }

void amx_bf16_panel(const LinearOutput& out, const TiledX& x, int64_t panel, int64_t row0,
                    int64_t row1, std::byte* scratch) {
  const TileConfig config = whole_tiles();
  _tile_loadconfig(&config);
  run_panel(out, x, panel, row0, row1, scratch);
  _tile_release();
}

bool amx_bf16_takes(const LinearOutput& out) {
  return !out.weight->spec.dense() || out.weight->spec.kind == WeightKind::dense_bf16;
}

void amx_bf16_linear(const LinearParams& p, Exec& exec) {
  ThreadPool& pool = exec.pool();
  const int64_t cols = p.outputs[0].weight->cols;
  TiledX x;
  x.col_tiles = (cols + kTileCols - 1) / kTileCols;
  x.terms = 1;
  int64_t panels = 0;  // of all outputs
  for (int o = 0; o < p.n_outputs; ++o) {
    if (p.outputs[o].weight->spec.dense()) x.terms = 2;  // exact weights deserve it
    panels += amx_bf16_panels(*p.outputs[o].weight);
  }
  const size_t x_bytes = x.bytes(p.rows);
  const size_t thread_bytes = amx_bf16_scratch_bytes(x, cols);
  std::byte* scratch = exec.scratch(x_bytes + thread_bytes * size_t(pool.threads()));
  x.data = scratch;
  const IndexedX rows{p.x, p.x_stride, p.rows, nullptr};
  pool.parallel_for(TiledX::padded_rows(p.rows) / kTileRows, [&](int64_t task, int) {
    amx_bf16_fill(x, rows, cols, task * kTileRows, kTileRows);
  });

  const int64_t row_tasks = (p.rows + kPanelRows - 1) / kPanelRows;
  pool.parallel_for(panels * row_tasks, [&](int64_t task, int thread) {
    const int64_t row0 = task / panels * kPanelRows;
    int64_t panel = task % panels;
    int o = 0;
    for (;; ++o) {
      const int64_t mine = amx_bf16_panels(*p.outputs[o].weight);
      if (panel < mine) break;
      panel -= mine;
    }
    amx_bf16_panel(p.outputs[o], x, panel, row0, std::min(p.rows, row0 + kPanelRows),
                   scratch + x_bytes + thread_bytes * size_t(thread));
  });
}

}  // namespace ringkeep::kernels::cpu
HWY_POP_ATTRIBUTES

#else

namespace ringkeep::kernels::cpu {
bool amx_bf16_available() { return false; }
bool amx_bf16_takes(const LinearOutput&) { return false; }
void amx_bf16_linear(const LinearParams&, Exec&) {}
void amx_bf16_fill(const TiledX&, const IndexedX&, int64_t, int64_t, int64_t) {}
size_t amx_bf16_scratch_bytes(const TiledX&, int64_t) { return 0; }
int64_t amx_bf16_panels(const PackedTensor&) { return 0; }
void amx_bf16_panel(const LinearOutput&, const TiledX&, int64_t, int64_t, int64_t, std::byte*) {}
}  // namespace ringkeep::kernels::cpu
#endif
