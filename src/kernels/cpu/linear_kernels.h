// The parts of the linear op of the CPU, behind run-time dispatch; nothing here may be called
// without vectors_available(). The arithmetic is that of kernels/ref/linear.cpp.
#pragma once

#include "kernels/api/host_weights.h"
#include "kernels/api/ops.h"
#include "kernels/api/params.h"

namespace ringkeep::kernels::cpu {

// Tasks of a product.
inline constexpr size_t kTaskBytes = 64 << 10;  // of weights, at least: microseconds of reading
inline constexpr int64_t kTaskRows = 256;       // of x: weights are unpacked once for these
inline constexpr int64_t kTasksPerThread = 4;   // wanted, so that threads end together

// Blocks of a task that waits for memory: `least` or more, in whole panels, which are one stream,
// but no more than leaves tasks, or at least blocks, for all threads. `blocks`: all that there are.
int64_t stream_step(const PackedTensor& w, int64_t least, int64_t blocks, int threads);

// Rows of x as two int8 terms, x ~ scale * (256 * hi + lo), and the sums of 256 * hi + lo over
// every 16, 32, 64 and 128 columns (exact in float).
struct QuantizedX {
  int64_t rows = 0;  // rows in memory, whole tiles; those past the last row of x are arbitrary
  int64_t cols = 0;
  int64_t stride = 0;      // bytes between rows of hi and of lo
  int64_t sum_stride = 0;  // floats between rows of sums
  int8_t* hi = nullptr;    // [rows, stride]
  int8_t* lo = nullptr;    // [rows, stride]
  float* sums = nullptr;   // [rows, sum_stride]: [cols/16], [cols/32], [cols/64], [cols/128]
  float* scale = nullptr;  // [rows]

  // Where the sums over `group` columns start in a row of sums.
  int64_t sums_of(int group) const {
    int64_t at = 0;
    for (int size = 16; size < group; size *= 2) at += cols / size;
    return at;
  }
};

// Bytes that `q` needs for `rows` rows of `cols` columns; sets its sizes, and its pointers into
// `memory` (64-byte aligned) unless that is null.
size_t place_quantized(QuantizedX& q, int64_t rows, int64_t cols, std::byte* memory);

// Quantizes rows [row0, row0 + n) of x.
void quantize_x(const float* x, int64_t x_stride, int64_t row0, int64_t n, const QuantizedX& q);

// A block of a packed matrix rewritten as 8-bit codes with f32 scales (and biases): the physical
// layout of this spec, without sections. `code_offset` is taken from each code, modulo 256:
// plain_offset(spec) makes it a block of that spec, spec.zero makes symmetric codes signed.
inline constexpr int kPlainZero = 128;  // of symmetric kinds
quant::WeightSpec plain_spec(const quant::WeightSpec& spec);
int plain_offset(const quant::WeightSpec& spec);
void transcode_block(const PackedTensor& w, int64_t b, int code_offset, std::byte* out);
// ... or as floats: out [cols][16]. `scratch` has packed_scratch_bytes(cols) bytes.
void expand_block(const PackedTensor& w, int64_t b, std::byte* scratch, float* out);

// Blocks [block0, block1) of one packed output for rows [row0, row0 + n) of x. `scratch` has
// packed_scratch_bytes(cols) bytes of this thread, 64-byte aligned.
using PackedRun = void (*)(const LinearOutput& out, const QuantizedX& x, int64_t row0, int64_t n,
                           int64_t block0, int64_t block1, std::byte* scratch);
void packed_run(const LinearOutput& out, const QuantizedX& x, int64_t row0, int64_t n,
                int64_t block0, int64_t block1, std::byte* scratch);
size_t packed_scratch_bytes(int64_t cols);

// Rows of prompts, x ~ step * (hi + lo / 256) with a step for every kRun columns. lo is 0 but in
// runs whose squared step is more than kFineSquares times the row's mean of them: those hold what
// rounding costs most. Rows lie in tiles of kTile, so that a product reads streams.
struct CoarseX {
  static constexpr int kTile = 8;
  static constexpr int64_t kRun = 32;
  static constexpr float kFineSquares = 4.0f;
  // Sums over 16 or over 32 columns: of x as it is rounded, and -kPlainZero times those of hi and
  // lo, from which dot products with plain codes start.
  struct Sums {
    float* x = nullptr;     // [rows / kTile][cols / columns][kTile]
    int32_t* hi = nullptr;  // the same
    int32_t* lo = nullptr;  // the same
  };
  int64_t rows = 0;  // in memory, whole tiles; those past the last row of x are arbitrary
  int64_t cols = 0;
  int8_t* hi = nullptr;   // [rows / kTile][cols / 4][kTile][4]
  int8_t* lo = nullptr;   // the same; arbitrary in runs where no row of the tile is fine
  float* step = nullptr;  // [rows / kTile][runs][kTile]
  Sums sums16, sums32;
  float* scale = nullptr;   // [rows] 1, or NaN where a value is not finite
  uint8_t* fine = nullptr;  // [rows / kTile][runs][kTile] whether lo is not 0

  int64_t runs() const { return (cols + kRun - 1) / kRun; }
  // Of column `col` of a row in hi and lo; of what a row has for part number `part` of `parts`.
  int64_t at(int64_t row, int64_t col) const {
    return (row / kTile * cols + col) * kTile + row % kTile * 4;
  }
  static int64_t at_part(int64_t row, int64_t part, int64_t parts) {
    return (row / kTile * parts + part) * kTile + row % kTile;
  }
  // Bytes for so many rows and columns; sets its sizes, and its pointers into `memory` (64-byte
  // aligned), or to null.
  size_t place(int64_t row_count, int64_t columns, std::byte* memory);
};
// The tile that begins with row0, of n rows of x.
void coarse_quantize(const float* const* x, int n, const CoarseX& q, int64_t row0);
// As packed_run, but for y, whose first row is that of row0 (at the beginning of a tile).
void coarse_run(const LinearOutput& out, const CoarseX& x, int64_t row0, int64_t n, int64_t block0,
                int64_t block1, std::byte* scratch);

// The same as packed_run with AMX tiles, for n >= kAmxRows.
inline constexpr int64_t kAmxRows = 8;
bool amx_available();
void amx_run(const LinearOutput& out, const QuantizedX& x, int64_t row0, int64_t n, int64_t block0,
             int64_t block1, std::byte* scratch);

// Every row in bf16 with AMX tiles, for outputs that amx_bf16_takes(). Packed weights are rounded
// to bf16 with their scales, and x as well; dense bf16 weights take x as two bf16 terms.
bool amx_bf16_available();
bool amx_bf16_takes(const LinearOutput& out);
void amx_bf16_linear(const LinearParams& p, Exec& exec);

// Its parts, for grouped products. x as bf16 in tiles
// [rows / 16][tiles of columns][terms][16 rows][32 columns]; x ~ the sum of its terms. Rows up to a
// multiple of 32 are there; the added ones, and columns past the last, are 0.
struct TiledX {
  static constexpr int kTileRows = 16;
  static constexpr int kTileBytes = 1024;
  static constexpr int64_t kRowStep = 2 * kTileRows;
  std::byte* data = nullptr;
  int64_t col_tiles = 0;
  int terms = 1;

  static int64_t padded_rows(int64_t rows) { return (rows + kRowStep - 1) / kRowStep * kRowStep; }
  size_t bytes(int64_t rows) const {
    return size_t(padded_rows(rows) / kTileRows * col_tiles * terms) * kTileBytes;
  }
  std::byte* tile(int64_t row_tile, int64_t col_tile) const {
    return data + size_t((row_tile * col_tiles + col_tile) * terms) * kTileBytes;
  }
};
// Rows of x, each where `index` (or null: its own number) says.
struct IndexedX {
  const float* x = nullptr;
  int64_t stride = 0;
  int64_t count = 0;
  const int32_t* index = nullptr;  // [count]
  const float* row(int64_t r) const { return x + (index != nullptr ? index[r] : r) * stride; }
};
// Rows [row0, row0 + n) of the tiles; those past the last row are 0.
void amx_bf16_fill(const TiledX& tiled, const IndexedX& rows, int64_t cols, int64_t row0,
                   int64_t n);
// Outputs of one panel of 32 for rows [row0, row1) of x (row0 a multiple of 32). `scratch`:
// amx_bf16_scratch_bytes().
void amx_bf16_panel(const LinearOutput& out, const TiledX& x, int64_t panel, int64_t row0,
                    int64_t row1, std::byte* scratch);
int64_t amx_bf16_panels(const PackedTensor& w);
size_t amx_bf16_scratch_bytes(const TiledX& x, int64_t cols);

// Float products of dense blocks, or (exact) of packed ones. `scratch`: float_scratch_bytes(cols).
void float_run(const LinearOutput& out, const float* x, int64_t x_stride, int64_t row0, int64_t n,
               int64_t block0, int64_t block1, std::byte* scratch);
size_t float_scratch_bytes(int64_t cols);

}  // namespace ringkeep::kernels::cpu
