// How the host backends (kernels/ref and kernels/cpu) lay keys and values out within a page, and
// the grids of the codecs. docs/kv-codecs.md describes the same bytes for other programs.
//
// A page is [kv_heads] head blocks; a head block is K scales, K biases, K codes, V scales, V
// biases, V codes, each a multiple of 128 bytes. The order of codes suits dot products of bytes:
// four consecutive channels of a token of K, or four consecutive tokens of a channel of V, share 32
// bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/api/kv_types.h"
#include "kernels/api/ops.h"

namespace ringkeep::kernels {

inline constexpr int kMaxHeadDim = 512;
// Rows with a larger magnitude (or NaN) count as non-finite: half precision ends here.
inline constexpr float kMaxKvMagnitude = 65504.0f;

// K or V of one head block. Offsets are bytes from the start of the head block.
struct HostKvPlane {
  KvCodec codec;
  bool value = false;  // V
  int dim = 0;
  int group = 0;      // channels under one scale; dim when the whole row is
  int groups = 0;     // dim / group; 0 for halves
  int run = 0;        // channels (K) or tokens (V) of a block, see below
  size_t codes = 0;   // [64 * dim * bits / 8] bytes, or [64 * dim] halves, order below
  size_t scales = 0;  // f16 [groups][64 tokens]
  size_t biases = 0;  // f16 [groups][64 tokens], affine only
};

struct HostKvLayout {
  explicit HostKvLayout(const KvGeometry& geometry);
  HostKvPlane k;
  HostKvPlane v;
  size_t head_bytes = 0;
  size_t page_bytes = 0;
};

// Whether pages of the two may be the cold and the hot ones of a layer: the same rows in the same
// space, and one query for both.
bool tiers_fit(const KvGeometry& cold, const KvGeometry& hot);

// A plane is made of blocks in the order in which attention reads them, which makes a page one
// stream. A block of K is 16 tokens of `run` channels: [dim / run][4 token blocks]. A block of V is
// `run` tokens of 16 channels: [dim / 64][64 / run][4 channel blocks], or as many as there are in
// the last 64 channels.
// Halves, run 2: a block is [run][16].
// Codes, run 4 at 8 bits and else 16: a block is run / 4 units of 64 codes, of which each is 64
// bytes at 8 bits.
// K: unit = block * run / 4 + channel % run / 4, entry = token % 16 * 4 + channel % 4
// V: unit = block * run / 4 + token % run / 4,   entry = channel % 16 * 4 + token % 4
// A plane has `dim` units. Below 8 bits they are bit planes, one after the other, low bits first
// (6 = 4 + 2, 5 = 4 + 1, 3 = 2 + 1):
//   4 bits: byte (unit / 2) * 64 + entry, shift 4 * (unit % 2)
//   2 bits: byte (unit / 4) * 64 + entry, shift 2 * (unit % 4)
//   1 bit:  byte unit * 8 + entry / 8,    shift entry % 8
// At 8 bits V has its top bit flipped, so that it reads as a signed byte.
inline constexpr int kKvLanes = 16;     // tokens of a block of K, channels of one of V
inline constexpr int kValueBlocks = 4;  // of V, side by side
inline constexpr int kHalvesRun = 2;

// Blocks of V side by side where `channel` is.
inline int value_blocks(int dim, int channel) {
  const int left = dim / kKvLanes - channel / (kValueBlocks * kKvLanes) * kValueBlocks;
  return left < kValueBlocks ? left : kValueBlocks;
}

// Number of the block that a token's channel is in.
inline int kv_block(const HostKvPlane& plane, int token, int channel) {
  const int shift = std::countr_zero(static_cast<unsigned>(plane.run));  // a power of two
  if (!plane.value) return (channel >> shift) * (kPageTokens / kKvLanes) + token / kKvLanes;
  return channel / (kValueBlocks * kKvLanes) * kValueBlocks * (kPageTokens >> shift) +
         (token >> shift) * value_blocks(plane.dim, channel) + channel / kKvLanes % kValueBlocks;
}

int get_code(const HostKvPlane& plane, const std::byte* head, int token, int channel);
void set_code(const HostKvPlane& plane, std::byte* head, int token, int channel, int code);

// Byte offsets in the head block of the half-precision fields: scale and bias of a token's group,
// element of a plane of halves.
size_t scale_offset(const HostKvPlane& plane, int token, int group);
size_t bias_offset(const HostKvPlane& plane, int token, int group);
size_t half_offset(const HostKvPlane& plane, int token, int channel);

// Integer level of a code: value = scale * level (+ bias). hadamard: 8 bits code - 128; 6 and 5 odd
// integers 2 * code + 1 - 2^bits; 4, 3 and 2 Lloyd-Max levels of a normal distribution. affine: the
// code; in V, 2^bits - 1 - code where the scale is negative, so that P may stay unsigned.
int kv_level(const KvCodec& codec, int code);

// Positive levels (ascending) of the 4, 3 and 2-bit grids; 2^(bits - 1) of them. 127 stands for
// lloyd_max_top(bits) standard deviations.
const int8_t* lloyd_max_levels(int bits);
float lloyd_max_top(int bits);

// Largest power of two that divides the dim: the block of the Hadamard transform.
inline int hadamard_block(int dim) { return dim & -dim; }
// In place, orthonormal, over blocks of hadamard_block(dim); its own inverse. Stages run from
// stride 1 up, then one multiplication, so that every implementation rounds alike.
void hadamard(float* x, int dim);

// Rows between pages and the canonical layout (kv_rows.h).
void host_kv_export(const KvRowsParams& p, Exec& exec);
void host_kv_import(const KvRowsParams& p, Exec& exec);

void set_host_kv_layout(Ops& ops);

}  // namespace ringkeep::kernels
