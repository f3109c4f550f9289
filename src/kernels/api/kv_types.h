// How a backend stores keys and values. A row is one head's vector of one token; every row is
// encoded alone. A page holds kPageTokens rows of every KV head of one layer, K and V; where a byte
// lies within a page is the backend's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ringkeep::kernels {

inline constexpr int kPageTokens = 64;

enum class KvScheme : uint8_t {
  f16,       // IEEE half rows
  hadamard,  // orthonormal Hadamard along head_dim, then b-bit codes with f16 scales, or halves
  affine,    // groups along head_dim, w = scale * q + bias, f16 scale and bias (as MLX)
};

struct KvCodec {
  KvScheme scheme = KvScheme::f16;
  int bits = 16;  // 8 6 5 4 3 2 as codes, 16 as halves (f16, and hadamard in a hot tier)
  int group = 0;  // channels under one scale; 0: the whole row
  bool halves() const { return bits == 16; }
  bool rotated() const { return scheme == KvScheme::hadamard; }
  bool operator==(const KvCodec&) const = default;
};
// "f16", "8", "affine4:64": half a CODEC of the command line. Rotated halves are "f16" too.
std::string describe(const KvCodec& codec);

struct KvGeometry {
  int kv_heads = 0;
  int k_dim = 0;
  int v_dim = 0;
  KvCodec k;
  KvCodec v;
  bool operator==(const KvGeometry&) const = default;
};

// One page of a sequence: tokens [logical * kPageTokens, ...) live in physical page `physical`.
struct PageRef {
  int32_t logical = 0;
  int32_t physical = 0;
};

// Consecutive rows of one sequence within a step. Row row0 + i has the token index index0 + i.
struct KvSegment {
  int64_t row0 = 0;
  int64_t rows = 0;
  int64_t index0 = 0;
  const PageRef* pages = nullptr;  // ascending logical; the pages of this step's rows included
  int64_t n_pages = 0;
  const int64_t* span_end = nullptr;  // [rows] last index of the bidirectional span that holds the
                                      // row, or the row's own index; null: purely causal
};

// The one visibility rule. window <= 0 means unbounded. `span_end` >= q is the last index of the
// bidirectional span that holds q (q itself outside spans).
inline bool visible(int64_t q, int64_t k, int64_t window, int64_t keep, int64_t span_end) {
  return k <= span_end && (window <= 0 || q - k < window || k < keep);
}
// Chunked layers: a row sees only its own block of `size` tokens.
inline bool visible_chunked(int64_t q, int64_t k, int64_t size) {
  return k <= q && q / size == k / size;
}

// With a hot tier, the row at token index q reads the page of its own token, the page before it and
// all later ones (inside a span) from the hot pages, older ones from the cold pages.
inline bool reads_hot(int64_t q, int64_t page) { return page >= q / kPageTokens - 1; }

}  // namespace ringkeep::kernels
