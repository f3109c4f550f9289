// Rows (outputs) come in blocks of 16; the last block is padded with zeros. A matrix is one stream
// that a matrix-vector product reads once, from its first byte to its last.
//
// Dense kinds: [cols][16 rows] elements, block after block.
//
// Packed kinds: four blocks, or two large ones, are a panel (the last has those that are left). The
// columns are cut into sections of the same number of columns, up to 1,280, and a panel holds the
// first section of its blocks, one behind the other, then the second: what a product needs of x for
// a section stays in the nearest cache for all of the panel. A section holds groups in ascending
// order, each
//   scales   [16] f16, bf16 or f32, then for affine kinds biases [16] of the same type;
//            two levels: sub-scales [16] i8, then sub-mins [16] u8; for 2-bit codes both are
//            4-bit numbers and share a byte (sub-scale in the low nibble)
//   codes    bit planes, lowest bits first: 8 = 8; 6 = 4 + 2; 5 = 4 + 1; 4; 3 = 2 + 1; 2.
// and, for two levels, super-scales [16] f16 and super-mins [16] f16 before every 256 columns.
//
// The codes of a group are units of 64 bytes, [16 rows][4 columns], one unit for four columns: the
// operand shape of four-way byte dot products (and, unit after unit, of AMX tiles). Within a plane
// of 4 or 2 bits a vector of 64 bytes holds 2 or 4 consecutive units, byte by byte, the first one
// in the lowest bits: unpacking is a shift and a mask. In a plane of 1 bit a unit is 64 bits, bit i
// for byte i: a mask register. Codes that stand for levels (e2m1) are stored as they are.
#include "kernels/api/host_weights.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/dtype.h"

namespace ringkeep::kernels {
namespace {

using quant::ScaleKind;
using quant::WeightKind;
using quant::WeightRows;
using quant::WeightSpec;

size_t dense_bytes(WeightKind kind) { return kind == WeightKind::dense_f32 ? 4 : 2; }

void store16(std::byte* p, uint16_t value) { std::memcpy(p, &value, sizeof value); }
uint16_t load16(const std::byte* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// Sixteen floats as the type of `kind`; returns the end.
std::byte* store_scales(std::byte* p, ScaleKind kind, const float* values) {
  if (kind == ScaleKind::f32) {
    std::memcpy(p, values, kRowBlock * sizeof(float));
    return p + kRowBlock * sizeof(float);
  }
  for (int r = 0; r < kRowBlock; ++r, p += 2)
    store16(p, kind == ScaleKind::bf16 ? float_to_bf16(values[r]) : float_to_f16(values[r]));
  return p;
}

const std::byte* load_scales(const std::byte* p, ScaleKind kind, float* values) {
  if (kind == ScaleKind::f32) {
    std::memcpy(values, p, kRowBlock * sizeof(float));
    return p + kRowBlock * sizeof(float);
  }
  for (int r = 0; r < kRowBlock; ++r, p += 2)
    values[r] = kind == ScaleKind::bf16 ? bf16_to_float(load16(p)) : f16_to_float(load16(p));
  return p;
}

using Units = uint8_t[kMaxGroup / 4][kRowBlock][4];

// Eight codes at a time, each in a byte of a word: bits [shift, shift + width) of each.
uint64_t part_of(const uint8_t* codes, int shift, int width) {
  uint64_t word;
  std::memcpy(&word, codes, sizeof word);
  return word >> shift & 0x0101010101010101u * ((1u << width) - 1);
}

void pack_codes(int bits, int units, const Units& codes, std::byte* p) {
  const CodePlanes planes = code_planes(bits);
  int shift = 0;
  for (int plane = 0; plane < planes.count; shift += planes.width[plane++]) {
    const int width = planes.width[plane];
    const int together = width == 1 ? 1 : 8 / width;
    for (int u = 0; u < units; u += together)
      for (int i = 0; i < kUnitBytes; i += 8) {
        uint64_t packed = 0;
        for (int s = 0; s < together; ++s)
          packed |= part_of(&codes[u + s][0][0] + i, shift, width) << (s * width);
        if (width == 1) {  // bit 8k to bit k, by a product whose top byte collects them
          *p++ = std::byte(packed * 0x0102040810204080u >> 56);
        } else {
          std::memcpy(p, &packed, sizeof packed);
          p += sizeof packed;
        }
      }
  }
}

// The codes (or levels) of row r in a group: out [group].
void unpack_row_codes(const WeightSpec& spec, const std::byte* p, int r, uint8_t* out) {
  const int units = spec.group / 4;
  const CodePlanes planes = code_planes(spec.bits);
  std::memset(out, 0, size_t(spec.group));
  int shift = 0;
  for (int plane = 0; plane < planes.count; ++plane) {
    const int width = planes.width[plane];
    const unsigned mask = (1u << width) - 1;
    const int together = width == 1 ? 1 : 8 / width;
    const int unit_bytes = width == 1 ? 8 : kUnitBytes;
    for (int u = 0; u < units; ++u) {
      const std::byte* unit = p + u / together * unit_bytes;
      for (int j = 0; j < 4; ++j) {
        const int i = 4 * r + j;
        const unsigned part = width == 1 ? unsigned(unit[i / 8]) >> (i % 8)
                                         : unsigned(unit[i]) >> (u % together * width);
        out[4 * u + j] |= uint8_t((part & mask) << shift);
      }
    }
    p += units / together * unit_bytes;
    shift += width;
  }
  if (spec.codes == quant::CodeKind::e2m1)
    for (int i = 0; i < spec.group; ++i) out[i] = quant::kE2m1Levels[out[i]];
}

// Sixteen rows of column `c` of `part` [rows, stride], zero past the last row.
template <typename T>
void gather(const std::vector<T>& part, int64_t stride, int64_t row0, int64_t rows, int64_t c,
            T* out) {
  for (int r = 0; r < kRowBlock; ++r)
    out[r] = r < rows ? part[size_t((row0 + r) * stride + c)] : T(0);
}

void pack_block(std::byte* p, size_t stride, const HostLayout& layout, const WeightRows& in,
                int64_t row0) {
  const WeightSpec& spec = in.spec;
  const bool affine = spec.kind == WeightKind::affine;
  const int64_t rows = std::min<int64_t>(kRowBlock, in.rows - row0);
  const int64_t supers = in.cols / quant::kSuperCols;
  float values[kRowBlock];
  int8_t subs[kRowBlock];
  uint8_t mins[kRowBlock];
  Units codes;
  for (int64_t g = 0; g < layout.groups; ++g) {
    if (g != 0 && g % layout.section_groups == 0) p += stride - layout.section_bytes;
    if (layout.super_groups != 0 && g % layout.super_groups == 0) {
      gather(in.supers, supers, row0, rows, g / layout.super_groups, values);
      p = store_scales(p, ScaleKind::f16, values);
      if (affine) {
        gather(in.super_mins, supers, row0, rows, g / layout.super_groups, values);
        p = store_scales(p, ScaleKind::f16, values);
      }
    }
    if (layout.super_groups != 0) {
      gather(in.sub_scales, layout.groups, row0, rows, g, subs);
      if (affine) gather(in.sub_mins, layout.groups, row0, rows, g, mins);
      if (nibble_subs(spec)) {
        for (int r = 0; r < kRowBlock; ++r) {
          RK_CHECK(subs[r] >= 0 && subs[r] < 16 && mins[r] < 16, "sub-scales of 2-bit codes");
          p[r] = std::byte(subs[r] | mins[r] << 4);
        }
      } else {
        std::memcpy(p, subs, kRowBlock);
        if (affine) std::memcpy(p + kRowBlock, mins, kRowBlock);
      }
      p += layout.scale_bytes;
    } else {
      gather(in.scales, layout.groups, row0, rows, g, values);
      p = store_scales(p, spec.scale, values);
      if (affine) {
        gather(in.biases, layout.groups, row0, rows, g, values);
        p = store_scales(p, spec.scale, values);
      }
    }
    for (int r = 0; r < kRowBlock; ++r) {
      if (r >= rows) {
        for (int u = 0; u < spec.group / 4; ++u) std::memset(codes[u][r], 0, 4);
        continue;
      }
      const uint8_t* row = in.codes.data() + size_t((row0 + r) * in.cols + g * spec.group);
      for (int u = 0; u < spec.group / 4; ++u) std::memcpy(codes[u][r], row + 4 * u, 4);
    }
    pack_codes(spec.bits, spec.group / 4, codes, p);
    p += layout.code_bytes;
  }
}

void pack_dense_block(std::byte* p, const WeightRows& in, int64_t row0) {
  const int64_t rows = std::min<int64_t>(kRowBlock, in.rows - row0);
  const size_t size = dense_bytes(in.spec.kind);
  for (int64_t c = 0; c < in.cols; ++c) {
    for (int r = 0; r < kRowBlock; ++r, p += size) {
      const float value = r < rows ? in.dense[size_t((row0 + r) * in.cols + c)] : 0.0f;
      switch (in.spec.kind) {
        case WeightKind::dense_f16: store16(p, float_to_f16(value)); break;
        case WeightKind::dense_bf16: store16(p, float_to_bf16(value)); break;
        default: std::memcpy(p, &value, sizeof value);
      }
    }
  }
}

constexpr size_t kLargeBlock = 32 << 10;  // a panel of four would be too long a task

// The columns of a section: all, or a part of them that is a multiple of 256.
int64_t section_cols(int64_t cols) {
  constexpr int kMost = 5;
  const int64_t runs = cols / quant::kSuperCols;
  if (cols % quant::kSuperCols != 0 || runs <= kMost) return cols;
  for (int n = kMost; n > 1; --n)
    if (runs % n == 0) return n * quant::kSuperCols;
  return cols;
}

}  // namespace

CodePlanes code_planes(int bits) {
  switch (bits) {
    case 8: return {1, {8, 0}};
    case 6: return {2, {4, 2}};
    case 5: return {2, {4, 1}};
    case 4: return {1, {4, 0}};
    case 3: return {2, {2, 1}};
    case 2: return {1, {2, 0}};
  }
  RK_CHECK(false, "codes of {} bits", bits);
}

HostLayout host_layout(const WeightSpec& spec, int64_t cols) {
  RK_CHECK(!spec.dense() && cols % spec.group == 0, "{} columns of {}", cols, describe(spec));
  RK_CHECK(spec.scale != ScaleKind::two_level || cols % quant::kSuperCols == 0, "{} columns of {}",
           cols, describe(spec));
  HostLayout layout = group_layout(spec);
  layout.groups = cols / spec.group;
  layout.section_groups = section_cols(cols) / spec.group;
  layout.section_bytes = size_t(layout.section_groups) * (layout.scale_bytes + layout.code_bytes);
  if (layout.super_groups != 0)
    layout.section_bytes +=
        size_t(layout.section_groups / layout.super_groups) * layout.super_bytes;
  layout.block_bytes = size_t(layout.sections()) * layout.section_bytes;
  layout.panel_blocks = layout.block_bytes > kLargeBlock ? 2 : kMostPanelBlocks;
  return layout;
}

HostBlock host_block(const PackedTensor& tensor, const HostLayout& layout, int64_t b) {
  const int64_t blocks = (tensor.rows + kRowBlock - 1) / kRowBlock;
  const int64_t first = b - b % layout.panel_blocks;
  const int64_t count = std::min(layout.panel_blocks, blocks - first);
  return {
      tensor.data + size_t(first) * layout.block_bytes + size_t(b - first) * layout.section_bytes,
      size_t(count) * layout.section_bytes};
}

size_t host_weight_bytes(const WeightSpec& spec, int64_t rows, int64_t cols) {
  const size_t blocks = size_t((rows + kRowBlock - 1) / kRowBlock);
  if (spec.dense()) return blocks * size_t(cols) * kRowBlock * dense_bytes(spec.kind);
  return blocks * host_layout(spec, cols).block_bytes;
}

int64_t host_grouped_bytes(const GroupedLinearParams& p) {
  int64_t bytes = 0;
  for (int g = 0; g < p.groups; ++g)
    for (int o = 0; o < p.n_outputs && p.begin[g + 1] > p.begin[g]; ++o) {
      const PackedTensor& w = p.outputs[o].weight->first;
      bytes += int64_t(host_weight_bytes(w.spec, w.rows, w.cols));
    }
  return bytes;
}

void host_pack_rows(std::byte* data, int64_t rows, int64_t cols, int64_t row0,
                    const WeightRows& in) {
  RK_CHECK(in.cols == cols && row0 % kRowBlock == 0 && row0 + in.rows <= rows &&
               (in.rows % kRowBlock == 0 || row0 + in.rows == rows),
           "rows {} + {} of [{}, {}]", row0, in.rows, rows, cols);
  if (in.spec.dense()) {
    const size_t block_bytes = host_weight_bytes(in.spec, kRowBlock, cols);
    for (int64_t r = 0; r < in.rows; r += kRowBlock)
      pack_dense_block(data + size_t((row0 + r) / kRowBlock) * block_bytes, in, r);
    return;
  }
  const HostLayout layout = host_layout(in.spec, cols);
  for (int64_t r = 0; r < in.rows; r += kRowBlock) {
    const HostBlock block = host_block({in.spec, rows, cols, data}, layout, (row0 + r) / kRowBlock);
    std::byte* to = data + (block.data - data);  // the same place, to be written
    pack_block(to, block.stride, layout, in, r);
  }
}

void unpack_scales(const WeightSpec& spec, const HostLayout& layout, const HostBlock& block,
                   int64_t g, float* scale, float* bias) {
  const bool affine = spec.kind == WeightKind::affine;
  const std::byte* p = layout.group(block, g);
  std::fill(bias, bias + kRowBlock, 0.0f);
  if (layout.super_groups == 0) {
    p = load_scales(p, spec.scale, scale);
    if (affine) load_scales(p, spec.scale, bias);
    return;
  }
  const int64_t first = g - g % layout.super_groups;
  const std::byte* super = layout.group(block, first) - layout.super_bytes;
  float super_mins[kRowBlock];
  super = load_scales(super, ScaleKind::f16, scale);
  if (affine) load_scales(super, ScaleKind::f16, super_mins);
  const bool nibbles = nibble_subs(spec);
  for (int r = 0; r < kRowBlock; ++r) {
    scale[r] *= float(nibbles ? int(p[r]) & 15 : int(int8_t(p[r])));
    if (affine)
      bias[r] = -(super_mins[r] * float(nibbles ? int(p[r]) >> 4 : int(p[r + kRowBlock])));
  }
}

void unpack_group(const WeightSpec& spec, const HostLayout& layout, const HostBlock& block,
                  int64_t g, HostGroup& out) {
  unpack_scales(spec, layout, block, g, out.scale, out.bias);
  const std::byte* codes = layout.group(block, g) + layout.scale_bytes;
  std::memset(out.codes, 0, size_t(spec.group) * kRowBlock);
  for (int r = 0; r < kRowBlock; ++r) {
    uint8_t row[kMaxGroup];
    unpack_row_codes(spec, codes, r, row);
    for (int u = 0; u < spec.group / 4; ++u) std::memcpy(out.codes[u][r], row + 4 * u, 4);
  }
}

void unpack_row(const PackedTensor& tensor, int64_t row, float* out) {
  const WeightSpec& spec = tensor.spec;
  const int r = int(row % kRowBlock);
  if (spec.dense()) {
    const std::byte* block =
        tensor.data + size_t(row / kRowBlock) * host_weight_bytes(spec, kRowBlock, tensor.cols);
    const size_t size = dense_bytes(spec.kind);
    for (int64_t c = 0; c < tensor.cols; ++c) {
      const std::byte* p = block + size_t(c * kRowBlock + r) * size;
      switch (spec.kind) {
        case WeightKind::dense_f16: out[c] = f16_to_float(load16(p)); break;
        case WeightKind::dense_bf16: out[c] = bf16_to_float(load16(p)); break;
        default: std::memcpy(&out[c], p, sizeof(float));
      }
    }
    return;
  }
  const HostLayout layout = host_layout(spec, tensor.cols);
  const HostBlock block = host_block(tensor, layout, row / kRowBlock);
  uint8_t codes[kMaxGroup];
  float scale[kRowBlock], bias[kRowBlock];
  for (int64_t g = 0; g < layout.groups; ++g, out += spec.group) {
    unpack_scales(spec, layout, block, g, scale, bias);
    unpack_row_codes(spec, layout.group(block, g) + layout.scale_bytes, r, codes);
    for (int i = 0; i < spec.group; ++i) {
      out[i] = spec.kind == WeightKind::affine ? scale[r] * float(codes[i]) + bias[r]
                                               : scale[r] * float(int(codes[i]) - spec.zero);
    }
  }
}

}  // namespace ringkeep::kernels
