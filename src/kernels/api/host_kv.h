// How the host backends (kernels/ref and kernels/cpu) lay keys and values out within a page, and
// the grids of the codecs. docs/kv-codecs.md describes the same bytes for other programs.
//
// A page is [kv_heads] head blocks; a head block is K codes, K scales, K biases, V codes, V scales,
// V biases, each a multiple of 128 bytes. The order of codes suits dot products of bytes: four
// consecutive channels of a token of K, or four consecutive tokens of a channel of V, share 32
// bits.
#pragma once

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
  int group = 0;     // channels under one scale; dim when the whole row is
  int groups = 0;    // dim / group; 0 for halves
  size_t codes = 0;  // [64 * dim * bits / 8] bytes, order below; halves: K [4 token blocks][dim][16
                     // tokens], V [dim / 16][64 tokens][16 channels]
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

// Codes are grouped in units of 64: at 8 bits a unit is 64 bytes.
// K: unit = (token / 16) * (dim / 4) + channel / 4, entry = (token % 16) * 4 + channel % 4
// V: unit = (channel / 16) * 16 + token / 4,        entry = (channel % 16) * 4 + token % 4
// A plane has `dim` units. Below 8 bits they are bit planes, one after the other, low bits first
// (6 = 4 + 2, 5 = 4 + 1, 3 = 2 + 1):
//   4 bits: byte (unit / 2) * 64 + entry, shift 4 * (unit % 2)
//   2 bits: byte (unit / 4) * 64 + entry, shift 2 * (unit % 4)
//   1 bit:  byte unit * 8 + entry / 8,    shift entry % 8
// At 8 bits V has its top bit flipped, so that it reads as a signed byte.
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

void set_host_kv_layout(Ops& ops);

}  // namespace ringkeep::kernels
