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

// The format of a GGUF block type; cols is 0 for every other type.
BlockFormat block_format(SourceType type);

// The packed form of MXFP4: scales are powers of two, which bf16 holds.
WeightSpec mxfp4_spec();
// n E8M0 scales, halved, since E2M1 levels are doubled.
void decode_e8m0_half(const std::byte* in, int64_t n, float* out);

// Decodes `count` rows of a block type starting at `data` into `out`, whose spec, rows and cols are
// set already.
void decode_blocks(SourceType type, const std::byte* data, WeightRows& out);

}  // namespace ringkeep::quant
