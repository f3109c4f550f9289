// Products with packed weights: integer dot products of a group, then float accumulation.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_packed.cpp"
#include <iterator>

#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/target.h"
#include "quant/gguf_blocks.h"
// After simd.h: it follows the target.
#include "kernels/cpu/linear_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {
#if RK_LINEAR_VECTORS

constexpr quant::WeightSpec kAny = {};
constexpr int kFewRows = 4;  // at most, of steps that wait for memory
// The terms of x are asked for so many bytes before their use: the weights that pass drive them out
// of the nearest cache.
constexpr int kTermsAhead = 160;

// `groups` groups of a block of kSpec, or of any spec whose codes load_units<kBits> unpacks, which
// follow one another from `section` on, for kRows rows of x from `row0` and the column `col0` on; y
// [kRows, 16] receives the sums without scale, from the first column on.
template <int kBits, quant::WeightSpec kSpec, int kRows>
HWY_NOINLINE void section_dots(const quant::WeightSpec& any, const std::byte* section,
                               int64_t groups, const QuantizedX& x, int64_t row0, int64_t col0,
                               float* y) {
  constexpr int kCodeBytes = int(group_layout(kSpec).code_bytes);
  const quant::WeightSpec spec = kSpec == kAny ? any : kSpec;
  HostLayout layout = group_layout(spec);
  layout.section_groups = groups;
  const bool affine = spec.kind == quant::WeightKind::affine;
  const int quads = spec.group / 16;
  const int64_t stride = x.stride, sum_stride = x.sum_stride;
  StreamAhead stream(section, kRows <= kFewRows && stream_prefetch_pays());
  for (int row = 0; row < kRowBlock; row += int(hn::Lanes(DF()))) {
    const int8_t* hi_terms = x.hi + row0 * stride + col0;
    const int8_t* lo_terms = x.lo + row0 * stride + col0;
    const float* sums = x.sums + row0 * sum_stride + x.sums_of(spec.group) + col0 / spec.group;
    VF acc[kRows];
    for (int r = 0; r < kRows; ++r)
      acc[r] = col0 == 0 ? hn::Zero(DF()) : hn::LoadU(DF(), y + r * kRowBlock + row);
    GroupReader reader(spec, layout, {section}, row);
    for (int64_t g = 0; g < groups; ++g, ++sums) {
      const std::byte* codes = reader.next();
      stream.ask<kCodeBytes>(reader.end());
      if (kRows <= kFewRows && g * spec.group % 64 == 0) {  // a line begins
        for (int c = 0; c < spec.group; c += 64) {
          for (int r = 0; r < kRows; ++r) {
            __builtin_prefetch(hi_terms + r * stride + c + kTermsAhead);
            __builtin_prefetch(lo_terms + r * stride + c + kTermsAhead);
          }
        }
      }
      VI hi[kRows], lo[kRows];
      for (int r = 0; r < kRows; ++r) {
        hi[r] = hn::Zero(DI());
        lo[r] = hn::Set(DI(), affine ? 0 : -spec.zero * int32_t(sums[r * sum_stride]));
      }
#pragma GCC unroll 2
      for (int quad = 0; quad < quads; ++quad, hi_terms += 16, lo_terms += 16) {
        V8 u[4];
        load_units<kBits>(codes, 4 * quads, quad, row, u);
        for (int j = 0; j < 4; ++j) {
          for (int r = 0; r < kRows; ++r) {
            hi[r] = dot4(hi[r], u[j], hi_terms + r * stride + 4 * j);
            lo[r] = dot4(lo[r], u[j], lo_terms + r * stride + 4 * j);
          }
        }
      }
      VF scale, bias;
      reader.scales(scale, bias);
      for (int r = 0; r < kRows; ++r) {
        const VI dot = hn::Add(hn::ShiftLeft<8>(hi[r]), lo[r]);
        acc[r] = hn::MulAdd(scale, hn::ConvertTo(DF(), dot), acc[r]);
        if (affine) acc[r] = hn::MulAdd(bias, hn::Set(DF(), sums[r * sum_stride]), acc[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) hn::StoreU(acc[r], DF(), y + r * kRowBlock + row);
  }
}

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
constexpr int kTile = 8;  // rows of x that share a pass over weights of 8 bits: 32 registers
#else
constexpr int kTile = 4;
#endif

// GGUF's block types, whose kernels for few rows are compiled knowing them.
constexpr quant::SourceType kBlockTypes[] = {
    quant::SourceType::q8_0, quant::SourceType::q6_k, quant::SourceType::q5_k,
    quant::SourceType::q5_1, quant::SourceType::q5_0, quant::SourceType::q4_k,
    quant::SourceType::q4_1, quant::SourceType::q4_0, quant::SourceType::mxfp4,
    quant::SourceType::q3_k, quant::SourceType::q2_k,
};

template <int kBits, int kRows, size_t kAt = 0>
auto section_kernel(const quant::WeightSpec& spec) {
  if constexpr (kRows > kFewRows || kAt == std::size(kBlockTypes)) {
    return section_dots<kBits, kAny, kRows>;
  } else {
    constexpr quant::WeightSpec kSpec = quant::block_format(kBlockTypes[kAt]).spec;
    if constexpr (unpacked_as(kSpec) == kBits)
      if (spec == kSpec) return section_dots<kBits, kSpec, kRows>;
    return section_kernel<kBits, kRows, kAt + 1>(spec);
  }
}

template <int kBits>
void transcode(const quant::WeightSpec& spec, const HostLayout& layout, const HostBlock& block,
               int code_offset, std::byte* out) {
  const bool affine = spec.kind == quant::WeightKind::affine;
  const int units = spec.group / 4;
  const HostLayout plain = host_layout(plain_spec(spec), layout.groups * spec.group);
  const V8 offset = hn::Set(D8(), uint8_t(code_offset));
  for (int row = 0; row < kRowBlock; row += int(hn::Lanes(DF()))) {
    GroupReader reader(spec, layout, block, row);
    StreamAhead stream(block.data, true);
    std::byte* to = out;
    for (int64_t g = 0; g < layout.groups; ++g) {
      const std::byte* codes = reader.next();
      stream.ask<0>(reader.end());
      VF scale, bias;
      reader.scales(scale, bias);
      hn::StoreU(scale, DF(), reinterpret_cast<float*>(to) + row);
      if (affine) hn::StoreU(bias, DF(), reinterpret_cast<float*>(to) + kRowBlock + row);
      to += plain.scale_bytes;
      for (int quad = 0; quad < units / 4; ++quad, to += 4 * kUnitBytes) {
        V8 u[4];
        load_units<kBits>(codes, units, quad, row, u);
        for (int j = 0; j < 4; ++j)
          hn::StoreU(hn::Sub(u[j], offset), D8(),
                     reinterpret_cast<uint8_t*>(to) + j * kUnitBytes + 4 * row);
      }
    }
  }
}

void transcode_any(const quant::WeightSpec& spec, const HostLayout& layout, const HostBlock& block,
                   int code_offset, std::byte* out) {
  with_bits(spec, [&](auto bits) HWY_ATTR {
    transcode<decltype(bits)::value>(spec, layout, block, code_offset, out);
  });
}

// Floats [cols][16] of a block that was transcoded to `spec`, 8 bits and f32 scales.
void expand_plain(const quant::WeightSpec& spec, const HostLayout& layout, const std::byte* block,
                  float* out) {
  const bool affine = spec.kind == quant::WeightKind::affine;
  const VI zero = hn::Set(DI(), spec.zero);
  const VI byte = hn::Set(DI(), 255);
  for (int row = 0; row < kRowBlock; row += int(hn::Lanes(DF()))) {
    GroupReader reader(spec, layout, {block, layout.section_bytes}, row);
    float* to = out + row;
    for (int64_t g = 0; g < layout.groups; ++g) {
      const std::byte* codes = reader.next();
      VF scale, bias;
      reader.scales(scale, bias);
      for (int u = 0; u < spec.group / 4; ++u) {
        VI four = hn::BitCast(DI(), load_codes(codes + u * kUnitBytes, row));
        for (int j = 0; j < 4; ++j, to += kRowBlock) {
          const VF code = hn::ConvertTo(DF(), hn::Sub(hn::And(four, byte), zero));
          const VF value = hn::Mul(scale, code);
          hn::StoreU(affine ? hn::Add(value, bias) : value, DF(), to);
          four = hn::ShiftRight<8>(four);
        }
      }
    }
  }
}

// Few rows of x: panel by panel, as the matrix lies in memory.
void run_panels(const LinearOutput& out, const QuantizedX& x, int64_t row0, int64_t n,
                int64_t block0, int64_t block1) {
  const PackedTensor& w = *out.weight;
  const HostLayout layout = host_layout(w.spec, w.cols);
  const int64_t section_cols = layout.section_groups * w.spec.group;
  HWY_ALIGN float y[kMostPanelBlocks][kFewRows * kRowBlock];
  with_bits(w.spec, [&](auto bits) HWY_ATTR {
    for (int64_t b0 = block0, end; b0 < block1; b0 = end) {
      end = std::min(block1, b0 - b0 % layout.panel_blocks + layout.panel_blocks);
      for (int64_t s = 0; s < layout.sections(); ++s)
        for (int64_t b = b0; b < end; ++b) {
          const HostBlock block = host_block(w, layout, b);
          for_row_steps<kFewRows>(n, [&](auto rows, int64_t r) HWY_ATTR {
            const auto dots = section_kernel<decltype(bits)::value, decltype(rows)::value>(w.spec);
            dots(w.spec, block.data + size_t(s) * block.stride, layout.section_groups, x, row0 + r,
                 s * section_cols, y[b - b0] + r * kRowBlock);
          });
        }
      for (int64_t b = b0; b < end; ++b) store_block(out, x.scale + row0, row0, n, b, y[b - b0]);
    }
  });
}

void run(const LinearOutput& out, const QuantizedX& x, int64_t row0, int64_t n, int64_t block0,
         int64_t block1, std::byte* scratch) {
  if (n < kUnpackRows) return run_panels(out, x, row0, n, block0, block1);
  const PackedTensor& w = *out.weight;
  const quant::WeightSpec plain = plain_spec(w.spec);
  HWY_ALIGN float y[kTile * kRowBlock];
  for (int64_t b = block0; b < block1; ++b) {
    transcode_block(w, b, plain_offset(w.spec), scratch);
    for_row_steps<kTile>(n, [&](auto rows, int64_t r) HWY_ATTR {
      constexpr int kRows = decltype(rows)::value;
      section_kernel<8, kRows>(plain)(plain, scratch, w.cols / plain.group, x, row0 + r, 0, y);
      store_block(out, x.scale + row0 + r, row0 + r, kRows, b, y);
    });
  }
}

#else
void run(const LinearOutput&, const QuantizedX&, int64_t, int64_t, int64_t, int64_t, std::byte*) {}
void transcode_any(const quant::WeightSpec&, const HostLayout&, const HostBlock&, int, std::byte*) {
}
void expand_plain(const quant::WeightSpec&, const HostLayout&, const std::byte*, float*) {}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringkeep::kernels::cpu {

HWY_EXPORT(run);
HWY_EXPORT(transcode_any);
HWY_EXPORT(expand_plain);

quant::WeightSpec plain_spec(const quant::WeightSpec& spec) {
  const bool affine = spec.kind == quant::WeightKind::affine;
  return {spec.kind, 8, spec.group, affine ? 0 : kPlainZero, quant::ScaleKind::f32};
}

int plain_offset(const quant::WeightSpec& spec) { return spec.zero - plain_spec(spec).zero; }

void transcode_block(const PackedTensor& w, int64_t b, int code_offset, std::byte* out) {
  const HostLayout layout = host_layout(w.spec, w.cols);
  HWY_DYNAMIC_DISPATCH(transcode_any)(w.spec, layout, host_block(w, layout, b), code_offset, out);
}

void expand_block(const PackedTensor& w, int64_t b, std::byte* scratch, float* out) {
  const quant::WeightSpec plain = plain_spec(w.spec);
  transcode_block(w, b, plain_offset(w.spec), scratch);
  HWY_DYNAMIC_DISPATCH(expand_plain)(plain, host_layout(plain, w.cols), scratch, out);
}

size_t packed_scratch_bytes(int64_t cols) {
  // 16 rows of 8-bit codes; f32 scale and bias for groups of 16 at the least.
  return size_t(cols) * (kRowBlock + 2 * kRowBlock * sizeof(float) / 16);
}

void packed_run(const LinearOutput& out, const QuantizedX& x, int64_t row0, int64_t n,
                int64_t block0, int64_t block1, std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(run)(out, x, row0, n, block0, block1, scratch);
}

}  // namespace ringkeep::kernels::cpu
#endif
