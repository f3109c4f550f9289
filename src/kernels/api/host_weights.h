// The physical layout of weights on the host, shared by kernels/ref and kernels/cpu; described at
// the head of host_weights.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/ops.h"
#include "quant/weight_spec.h"

namespace ringkeep::kernels {

inline constexpr int kRowBlock = 16;        // rows (outputs) interleaved in one block
inline constexpr int kMostPanelBlocks = 4;  // of a packed matrix
inline constexpr int kMaxGroup = 128;       // columns under one scale, at most
inline constexpr int kUnitBytes = 64;       // codes of 16 rows x 4 columns, one byte each

// A block of 16 rows of a packed (not dense) matrix: its first section, and how far it is from one
// section to the next.
struct HostBlock {
  const std::byte* data = nullptr;
  size_t stride = 0;
};

// Where things lie in such a block.
struct HostLayout {
  int64_t groups = 0;          // groups along cols
  int64_t section_groups = 0;  // groups of a section
  int64_t panel_blocks = 1;    // blocks of a panel; the last panel may have fewer
  int super_groups = 0;        // groups under one super-scale; 0: scales have one level
  size_t super_bytes = 0;      // super-scales (and super-mins) before each run of super_groups
  size_t scale_bytes = 0;      // scales (and biases or sub-mins) before the codes of a group
  size_t code_bytes = 0;       // codes of a group
  size_t section_bytes = 0;    // a section of a block
  size_t block_bytes = 0;      // all of them

  int64_t sections() const { return groups / section_groups; }
  // The scales of group g.
  const std::byte* group(const HostBlock& block, int64_t g) const {
    const std::byte* section = block.data + size_t(g / section_groups) * block.stride;
    g %= section_groups;
    const size_t supers = super_groups == 0 ? 0 : size_t(g / super_groups + 1) * super_bytes;
    return section + supers + size_t(g) * (scale_bytes + code_bytes);
  }
};
HostLayout host_layout(const quant::WeightSpec& spec, int64_t cols);
// Block b of the matrix, of that layout.
HostBlock host_block(const PackedTensor& tensor, const HostLayout& layout, int64_t b);

// Whether sub-scale and sub-min share a byte (two levels under 2-bit codes: both have 4 bits).
constexpr bool nibble_subs(const quant::WeightSpec& spec) {
  return spec.scale == quant::ScaleKind::two_level && spec.kind == quant::WeightKind::affine &&
         spec.bits == 2;
}

// What of it does not depend on the number of columns.
constexpr HostLayout group_layout(const quant::WeightSpec& spec) {
  const size_t parts = spec.kind == quant::WeightKind::affine ? 2 : 1;
  HostLayout layout;
  layout.code_bytes = size_t(kRowBlock * spec.group * spec.bits / 8);
  if (spec.scale == quant::ScaleKind::two_level) {
    layout.super_groups = quant::kSuperCols / spec.group;
    layout.super_bytes = parts * kRowBlock * 2;
    layout.scale_bytes = nibble_subs(spec) ? kRowBlock : parts * kRowBlock;
  } else {
    layout.scale_bytes = parts * kRowBlock * (spec.scale == quant::ScaleKind::f32 ? 4 : 2);
  }
  return layout;
}

// The bit planes of a code, lowest bits first.
struct CodePlanes {
  int count = 0;
  int width[2] = {0, 0};
};
CodePlanes code_planes(int bits);

// One group of one block, unpacked.
struct HostGroup {
  uint8_t codes[kMaxGroup / 4][kRowBlock][4];
  float scale[kRowBlock];
  float bias[kRowBlock];  // zero when symmetric
};
void unpack_group(const quant::WeightSpec& spec, const HostLayout& layout, const HostBlock& block,
                  int64_t g, HostGroup& out);

// The value of each weight of one row: out [cols]. Any kind.
void unpack_row(const PackedTensor& tensor, int64_t row, float* out);

size_t host_weight_bytes(const quant::WeightSpec& spec, int64_t rows, int64_t cols);
// Of the matrices that have places.
int64_t host_grouped_bytes(const GroupedLinearParams& p);
void host_pack_rows(std::byte* data, int64_t rows, int64_t cols, int64_t row0,
                    const quant::WeightRows& in);

}  // namespace ringkeep::kernels
