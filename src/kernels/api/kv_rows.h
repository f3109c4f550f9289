// Rows of the cache in the canonical layout of saved caches: the same for every backend, so that a
// file may be read where it was not written. docs/kv-codecs.md describes it for other programs.
//
// A plane is K or V of some rows of one layer, each field [kv_heads][rows][...] without padding:
//   codes   f16, and hadamard in 16 bits: dim halves. Quantized: dim codes of `bits` bits, a
//   little-endian bit stream (code
//   i
//           occupies the bits from i * bits on, lowest first), padded to whole bytes a row. The
//           codes are unsigned: hadamard counts its levels upwards (8 bits: level = code - 128);
//           affine is value = scale * code + bias, in V too.
//   scales  quantized: f16 [groups]
//   biases  affine: f16 [groups]
// All numbers are little-endian.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/kv_types.h"

namespace ringkeep::kernels {

// Bytes of one row of one head in each field; 0 where the codec has no such field.
struct KvRowBytes {
  size_t codes = 0;
  size_t scales = 0;
  size_t biases = 0;
  size_t all() const { return codes + scales + biases; }
};

inline KvRowBytes kv_row_bytes(const KvCodec& codec, int dim) {
  const auto channels = static_cast<size_t>(dim);
  if (codec.halves()) return {.codes = 2 * channels};
  const size_t groups = codec.group > 0 ? channels / static_cast<size_t>(codec.group) : 1;
  return {.codes = (channels * static_cast<size_t>(codec.bits) + 7) / 8,
          .scales = 2 * groups,
          .biases = codec.scheme == KvScheme::affine ? 2 * groups : 0};
}

// Fields of the device; null where the codec has no such field.
struct KvPlaneRows {
  std::byte* codes = nullptr;
  std::byte* scales = nullptr;
  std::byte* biases = nullptr;
};

// Rows of one layer between its pages and the canonical layout.
struct KvRowsParams {
  KvGeometry geometry;
  std::byte* storage = nullptr;    // page 0 of the layer
  int64_t page_stride = 0;         // bytes
  const int64_t* slots = nullptr;  // [n] physical page * kPageTokens + token; those of one page are
                                   // consecutive
  int64_t n = 0;
  KvPlaneRows k;
  KvPlaneRows v;
};

}  // namespace ringkeep::kernels
