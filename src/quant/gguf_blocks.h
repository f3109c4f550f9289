// The block formats of GGUF (specification: ggml's block definitions), decoded to logical codes.
// Blocks of 32 columns: one f16 scale (and minimum). Super-blocks of 256: f16 super-scales over
// groups of 16 or 32 with integer sub-scales.
#pragma once

#include "quant/source_tensor.h"

namespace ringkeep::quant {

struct BlockFormat {
  WeightSpec spec;
  int cols = 0;   // columns of a block
  int bytes = 0;  // bytes of a block
};

// The packed form of MXFP4: scales are powers of two, which bf16 holds.
constexpr WeightSpec mxfp4_spec() {
  return {WeightKind::symmetric, 4, 32, kE2m1Zero, ScaleKind::bf16, CodeKind::e2m1};
}

// The format of a GGUF block type; cols is 0 for every other type.
constexpr BlockFormat block_format(SourceType type) {
  constexpr auto kSymmetric = WeightKind::symmetric;
  constexpr auto kAffine = WeightKind::affine;
  constexpr auto kTwoLevel = ScaleKind::two_level;
  switch (type) {
    case SourceType::q4_0: return {{kSymmetric, 4, 32, 8, ScaleKind::f16}, 32, 18};
    case SourceType::q4_1: return {{kAffine, 4, 32, 0, ScaleKind::f16}, 32, 20};
    case SourceType::q5_0: return {{kSymmetric, 5, 32, 16, ScaleKind::f16}, 32, 22};
    case SourceType::q5_1: return {{kAffine, 5, 32, 0, ScaleKind::f16}, 32, 24};
    case SourceType::q8_0: return {{kSymmetric, 8, 32, 128, ScaleKind::f16}, 32, 34};
    case SourceType::q2_k: return {{kAffine, 2, 16, 0, kTwoLevel}, 256, 84};
    case SourceType::q3_k: return {{kSymmetric, 3, 16, 4, kTwoLevel}, 256, 110};
    case SourceType::q4_k: return {{kAffine, 4, 32, 0, kTwoLevel}, 256, 144};
    case SourceType::q5_k: return {{kAffine, 5, 32, 0, kTwoLevel}, 256, 176};
    case SourceType::q6_k: return {{kSymmetric, 6, 16, 32, kTwoLevel}, 256, 210};
    case SourceType::mxfp4: return {mxfp4_spec(), 32, 17};
    default: return {};
  }
}

// n E8M0 scales, halved, since E2M1 levels are doubled.
void decode_e8m0_half(const std::byte* in, int64_t n, float* out);

// Decodes `count` rows of a block type starting at `data` into `out`, whose spec, rows and cols are
// set already.
void decode_blocks(SourceType type, const std::byte* data, WeightRows& out);

}  // namespace ringkeep::quant
