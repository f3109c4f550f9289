// Vectors over the rows of a block: unpacking of codes, scales and the integer dot product. A block
// has 16 rows; a vector holds N of them (N divides 16), so targets with narrow vectors pass over a
// block 16 / N times, each time over the rows [row, row + N).
#if defined(RK_LINEAR_UNITS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RK_LINEAR_UNITS_INL
#undef RK_LINEAR_UNITS_INL
#else
#define RK_LINEAR_UNITS_INL
#endif

#include <cstring>

#include "hwy/highway.h"
#include "kernels/api/host_weights.h"
#include "kernels/cpu/target.h"

// Without vectors of fixed size larger than a lane the reference runs instead.
#undef RK_LINEAR_VECTORS
#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE
#define RK_LINEAR_VECTORS 0
#else
#define RK_LINEAR_VECTORS 1

HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, kRowBlock>;
using DI = hn::Rebind<int32_t, DF>;
using D16 = hn::Rebind<uint16_t, DF>;
using D8 = hn::Repartition<uint8_t, DI>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using V8 = hn::Vec<D8>;

// Byte i of every 64-byte unit that belongs to rows [row, row + N).
HWY_INLINE V8 load_codes(const std::byte* unit, int row) {
  return hn::LoadU(D8(), reinterpret_cast<const uint8_t*>(unit) + 4 * row);
}

template <int kShift>
HWY_INLINE V8 shift_mask(V8 v, int mask) {
  const hn::Repartition<uint16_t, D8> d16;
  return hn::And(hn::BitCast(D8(), hn::ShiftRight<kShift>(hn::BitCast(d16, v))),
                 hn::Set(D8(), uint8_t(mask)));
}

// Adds `value` to the codes of a unit whose bit is set in the 1-bit plane at `p`.
HWY_INLINE V8 add_bits(V8 codes, const std::byte* p, int row, int value) {
  uint64_t bits;
  std::memcpy(&bits, p, sizeof bits);
  bits >>= 4 * row;
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  const auto add = hn::Set(D8(), uint8_t(value));
  return V8{_mm512_mask_add_epi8(codes.raw, bits, codes.raw, add.raw)};
#else
  uint8_t bytes[8];
  std::memcpy(bytes, &bits, sizeof bits);
  const auto mask = hn::LoadMaskBits(D8(), bytes);
  return hn::Or(codes, hn::IfThenElseZero(mask, hn::Set(D8(), uint8_t(value))));
#endif
}

// In place of the number of bits: 4-bit codes that stand for levels, which are what is unpacked.
constexpr int kE2m1 = 44;

// Four units (16 columns), number `quad` of a group with `units` units.
template <int kBits>
HWY_INLINE void load_units(const std::byte* codes, int units, int quad, int row, V8 (&u)[4]) {
  if constexpr (kBits == 8) {
    for (int j = 0; j < 4; ++j) u[j] = load_codes(codes + (4 * quad + j) * kUnitBytes, row);
    return;
  }
  const std::byte* rest = codes;  // the second plane
  if constexpr (kBits >= 4) {
    const V8 first = load_codes(codes + 2 * quad * kUnitBytes, row);
    const V8 second = load_codes(codes + (2 * quad + 1) * kUnitBytes, row);
    u[0] = shift_mask<0>(first, 15);
    u[1] = shift_mask<4>(first, 15);
    u[2] = shift_mask<0>(second, 15);
    u[3] = shift_mask<4>(second, 15);
    rest += units * (kUnitBytes / 2);
  } else {
    const V8 all = load_codes(codes + quad * kUnitBytes, row);
    u[0] = shift_mask<0>(all, 3);
    u[1] = shift_mask<2>(all, 3);
    u[2] = shift_mask<4>(all, 3);
    u[3] = shift_mask<6>(all, 3);
    rest += units * (kUnitBytes / 4);
  }
  if constexpr (kBits == 6) {
    const hn::Repartition<uint16_t, D8> d16;
    const auto all = hn::BitCast(d16, load_codes(rest + quad * kUnitBytes, row));
    const auto mask = hn::Set(D8(), 0x30);
    u[0] = hn::Or(u[0], hn::And(hn::BitCast(D8(), hn::ShiftLeft<4>(all)), mask));
    u[1] = hn::Or(u[1], hn::And(hn::BitCast(D8(), hn::ShiftLeft<2>(all)), mask));
    u[2] = hn::Or(u[2], hn::And(hn::BitCast(D8(), all), mask));
    u[3] = hn::Or(u[3], hn::And(hn::BitCast(D8(), hn::ShiftRight<2>(all)), mask));
  } else if constexpr (kBits == kE2m1) {
    const auto levels = hn::LoadDup128(D8(), quant::kE2m1Levels);
    for (int j = 0; j < 4; ++j) u[j] = hn::TableLookupBytes(levels, u[j]);
  } else if constexpr (kBits == 5 || kBits == 3) {
    for (int j = 0; j < 4; ++j)
      u[j] = add_bits(u[j], rest + (4 * quad + j) * 8, row, 1 << (kBits - 1));
  }
}

// acc + the products of the four codes (unsigned) and the four terms (signed) of each 32-bit lane.
HWY_INLINE VI dot4(VI acc, V8 codes, const int8_t* terms) {
  int32_t four;
  std::memcpy(&four, terms, sizeof four);
  const VI x = hn::Set(DI(), four);
#if RK_HAS_VNNI
  return VI{_mm512_dpbusd_epi32(acc.raw, codes.raw, x.raw)};
#else
  // Even and odd bytes as 16-bit lanes. A product has at most 255 * 127 < 2^15: exact.
  const hn::Repartition<int16_t, DI> d16;
  const auto q = hn::BitCast(d16, codes);
  const auto x16 = hn::BitCast(d16, x);
  const auto q_even = hn::And(q, hn::Set(d16, 0xff));
  const auto q_odd =
      hn::BitCast(d16, hn::ShiftRight<8>(hn::BitCast(hn::RebindToUnsigned<decltype(d16)>(), q)));
  const auto x_even = hn::ShiftRight<8>(hn::ShiftLeft<8>(x16));
  const auto x_odd = hn::ShiftRight<8>(x16);
#if HWY_ARCH_X86
  // On x86 this is the pairwise sum of each 32-bit lane; the second sum stays as it was.
  VI unused = hn::Zero(DI());
  acc = hn::ReorderWidenMulAccumulate(DI(), q_even, x_even, acc, unused);
  return hn::ReorderWidenMulAccumulate(DI(), q_odd, x_odd, acc, unused);
#else
  for (const auto product :
       {hn::BitCast(DI(), hn::Mul(q_even, x_even)), hn::BitCast(DI(), hn::Mul(q_odd, x_odd))}) {
    const auto low = hn::ShiftRight<16>(hn::ShiftLeft<16>(product));
    acc = hn::Add(acc, hn::Add(low, hn::ShiftRight<16>(product)));
  }
  return acc;
#endif
#endif
}

// Rows [row, row + N) of 16 numbers of a type, as floats.
HWY_INLINE VF load_f16(const std::byte* p, int row) {
  const hn::Rebind<hwy::float16_t, DF> dh;
  return hn::PromoteTo(DF(), hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(p) + row));
}
HWY_INLINE VF load_bf16(const std::byte* p, int row) {
  const auto bits = hn::LoadU(D16(), reinterpret_cast<const uint16_t*>(p) + row);
  return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(DI(), bits)));
}
HWY_INLINE VF load_f32(const std::byte* p, int row) {
  return hn::LoadU(DF(), reinterpret_cast<const float*>(p) + row);
}
HWY_INLINE VF load_u8(const std::byte* p, int row) {
  const hn::Rebind<uint8_t, DF> d8;
  return hn::ConvertTo(
      DF(), hn::PromoteTo(DI(), hn::LoadU(d8, reinterpret_cast<const uint8_t*>(p) + row)));
}
HWY_INLINE VF load_i8(const std::byte* p, int row) {
  const hn::Rebind<int8_t, DF> d8;
  return hn::ConvertTo(
      DF(), hn::PromoteTo(DI(), hn::LoadU(d8, reinterpret_cast<const int8_t*>(p) + row)));
}
HWY_INLINE VF load_scale(const std::byte* p, quant::ScaleKind kind, int row) {
  if (kind == quant::ScaleKind::f16) return load_f16(p, row);
  return kind == quant::ScaleKind::bf16 ? load_bf16(p, row) : load_f32(p, row);
}

// Weights are one stream: asks for it before it is used, into the second cache, which takes many
// requests at a time.
class StreamAhead {
 public:
  StreamAhead(const std::byte* p, bool pays) : asked_(p + kAhead), pays_(pays) {}

  // Bytes up to `end` are about to be used; at least kBytes more than at the call before.
  template <int kBytes>
  HWY_INLINE void ask(const std::byte* end) {
    if (!pays_) return;
    constexpr int kLines = kBytes / 64;
#pragma GCC unroll 16
    for (int i = 0; i < kLines; ++i) __builtin_prefetch(asked_ + 64 * i, 0, 2);
    asked_ += 64 * kLines;
    for (; asked_ < end + kAhead; asked_ += 64) __builtin_prefetch(asked_, 0, 2);
  }

 private:
  static constexpr size_t kAhead = 8192;
  const std::byte* asked_;
  bool pays_;
};

// Walks the groups of a block and reads scale and bias of rows [row, row + N).
class GroupReader {
 public:
  GroupReader(const quant::WeightSpec& spec, const HostLayout& layout, const HostBlock& block,
              int row)
      : spec_(spec),
        layout_(layout),
        p_(block.data),
        skip_(block.stride - layout.section_bytes),
        section_left_(layout.section_groups),
        row_(row),
        affine_(spec.kind == quant::WeightKind::affine),
        nibbles_(nibble_subs(spec)) {}

  // The codes of the next group
  HWY_INLINE const std::byte* next() {
    if (section_left_ == 0) {
      p_ += skip_;
      section_left_ = layout_.section_groups;
    }
    --section_left_;
    if (layout_.super_groups != 0) {
      if (left_ == 0) next_super();
      --left_;
    }
    scales_ = p_;
    p_ += layout_.scale_bytes + layout_.code_bytes;
    return scales_ + layout_.scale_bytes;
  }
  // The end of that group
  HWY_INLINE const std::byte* end() const { return p_; }

  // Its scales, and its biases or 0
  HWY_INLINE void scales(VF& scale, VF& bias) const {
    bias = hn::Zero(DF());
    if (layout_.super_groups == 0) {
      scale = load_scale(scales_, spec_.scale, row_);
      if (affine_) bias = load_scale(scales_ + layout_.scale_bytes / 2, spec_.scale, row_);
    } else if (nibbles_) {
      const hn::Rebind<uint8_t, DF> d8;
      const auto both =
          hn::PromoteTo(DI(), hn::LoadU(d8, reinterpret_cast<const uint8_t*>(scales_) + row_));
      scale = hn::Mul(super_, hn::ConvertTo(DF(), hn::And(both, hn::Set(DI(), 15))));
      bias = hn::Neg(hn::Mul(super_min_, hn::ConvertTo(DF(), hn::ShiftRight<4>(both))));
    } else {
      scale = hn::Mul(super_, load_i8(scales_, row_));
      if (affine_) bias = hn::Neg(hn::Mul(super_min_, load_u8(scales_ + kRowBlock, row_)));
    }
  }

 private:
  HWY_INLINE void next_super() {
    super_ = load_f16(p_, row_);
    if (affine_) super_min_ = load_f16(p_ + 2 * kRowBlock, row_);
    p_ += layout_.super_bytes;
    left_ = layout_.super_groups;
  }

  quant::WeightSpec spec_;
  HostLayout layout_;
  const std::byte* p_;
  size_t skip_;  // from the end of a section to the next one
  int64_t section_left_;
  const std::byte* scales_ = nullptr;
  int row_;
  bool affine_;
  bool nibbles_;
  int left_ = 0;
  VF super_ = hn::Zero(DF());
  VF super_min_ = hn::Zero(DF());
};

}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif  // vectors
#endif
