// The inner loops of attention over one page of one KV head: unpacking codes to bytes, products of
// Q with K and of P with V. A tile has the order of an 8-bit plane (host_kv.h). Included once per
// SIMD target. Integer sums are exact, so their order is free; float sums run in a fixed order.
#if defined(RINGKEEP_KERNELS_CPU_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGKEEP_KERNELS_CPU_ATTENTION_TILES_INL_H_
#undef RINGKEEP_KERNELS_CPU_ATTENTION_TILES_INL_H_
#else
#define RINGKEEP_KERNELS_CPU_ATTENTION_TILES_INL_H_
#endif

#include <cstring>

#include "hwy/highway.h"
#include "kernels/api/host_kv.h"
#include "kernels/cpu/hadamard-inl.h"

#if HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE
HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = RowTag;  // 16 lanes at most
using I32 = hn::RebindToSigned<F32>;
using U8 = hn::Repartition<uint8_t, F32>;       // the same bytes
constexpr int kLanes = hn::MaxLanes(F32());     // of 32 bits
constexpr int kColumns = kPageTokens / kLanes;  // vectors that hold one value per token
// Query rows and vectors of a register tile: rows * vectors sums, and room for operands.
// The loops over tiles are functions of their own, so that the sums stay in registers.
constexpr int kTileRows = 4;
constexpr int kTileVectors = kLanes == 16 ? 4 : 2;

// What is read next, asked for line after line beside the work at hand, so that memory is busy all
// the time and never with more than it takes. Into the second cache, which takes many requests at a
// time.
class Ahead {
 public:
  Ahead() = default;
  // Evenly, in so many steps.
  Ahead(const std::byte* first, size_t bytes, int steps)
      : at_(first), end_(first + bytes), lines_((bytes / 64 + steps - 1) / steps) {}

  HWY_INLINE void Ask() {
    if (at_ >= end_) return;
    const std::byte* const to = at_ + 64 * lines_;
    for (; at_ < to; at_ += 64) __builtin_prefetch(at_, 0, 2);
  }

 private:
  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;
  ptrdiff_t lines_ = 0;  // of a step
};

HWY_INLINE int32_t LoadI32(const void* p) {
  int32_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

// sum + the products of four bytes a lane, without saturation
HWY_INLINE hn::Vec<I32> Dot4(hn::Vec<I32> sum, hn::Vec<U8> u, hn::Vec<U8> s) {
#if RK_HAS_VNNI
  // Not the intrinsic: g++ 12 copies its accumulators twice in every round of ValueDots.
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(u.raw), "v"(s.raw));
  return sum;
#elif HWY_ARCH_X86
  const I32 d;
  const hn::Repartition<int16_t, F32> d16;
  const hn::Repartition<uint16_t, F32> du16;
  const auto u16 = hn::BitCast(du16, u);
  const auto s16 = hn::BitCast(d16, s);
  auto unused = hn::Zero(d);
  sum = hn::ReorderWidenMulAccumulate(d, hn::BitCast(d16, hn::And(u16, hn::Set(du16, 0xFF))),
                                      hn::ShiftRight<8>(hn::ShiftLeft<8>(s16)), sum, unused);
  return hn::ReorderWidenMulAccumulate(d, hn::BitCast(d16, hn::ShiftRight<8>(u16)),
                                       hn::ShiftRight<8>(s16), sum, unused);
#else
  const I32 d;
  const hn::RebindToUnsigned<I32> du;
  const auto u32 = hn::BitCast(du, u);
  const auto s32 = hn::BitCast(d, s);
  const auto byte = hn::Set(du, 0xFF);
  sum = hn::Add(
      sum, hn::Mul(hn::BitCast(d, hn::And(u32, byte)), hn::ShiftRight<24>(hn::ShiftLeft<24>(s32))));
  sum = hn::Add(sum, hn::Mul(hn::BitCast(d, hn::And(hn::ShiftRight<8>(u32), byte)),
                             hn::ShiftRight<24>(hn::ShiftLeft<16>(s32))));
  sum = hn::Add(sum, hn::Mul(hn::BitCast(d, hn::And(hn::ShiftRight<16>(u32), byte)),
                             hn::ShiftRight<24>(hn::ShiftLeft<8>(s32))));
  return hn::Add(sum, hn::Mul(hn::BitCast(d, hn::ShiftRight<24>(u32)), hn::ShiftRight<24>(s32)));
#endif
}

// ---- Codes to bytes
// -------------------------------------------------------------------------------

// Byte of a code: table[code] up to 4 bits, code * factor + offset for 5 and 6.
struct ByteMap {
  uint8_t table[16];
  uint8_t factor;
  uint8_t offset;
};

// K: level + 128 (hadamard) or the code (affine). V: level, or the code less the middle of its
// range.
inline ByteMap MakeByteMap(const HostKvPlane& plane) {
  const int bits = plane.codec.bits;
  const bool affine = plane.codec.scheme == KvScheme::affine;
  const int zero = plane.value ? (affine ? -(1 << (bits - 1)) : 0) : (affine ? 0 : 128);
  ByteMap map{};
  for (int code = 0; code < 16 && code < 1 << bits; ++code)
    map.table[code] = static_cast<uint8_t>(kv_level(plane.codec, code) + zero);
  map.factor = affine ? 1 : 2;
  map.offset = static_cast<uint8_t>(kv_level(plane.codec, 0) + zero);
  return map;
}

// Units [first, last) of `units` of a plane of kBits below 8 to out [units * 64], in the order of 8
// bits. side: blocks of 4 units side by side.
template <int kBits>
HWY_INLINE void UnpackBits(const uint8_t* HWY_RESTRICT codes, int units, int first, int last,
                           int side, const ByteMap& map, uint8_t* HWY_RESTRICT out) {
  const U8 d;
  constexpr int kBytes = hn::MaxLanes(U8());
  constexpr int kLow = kBits >= 4 ? 4 : 2;  // width of the first plane
  constexpr int kUnits = 8 / kLow;          // units in 64 bytes of it
  const auto low_mask = hn::Set(d, (1 << kLow) - 1);
  const auto table = hn::LoadDup128(d, map.table);
  const auto offset = hn::Set(d, map.offset);
  const uint8_t* high = codes + units * 8 * kLow;
  const hn::Repartition<uint16_t, U8> d16;
  const auto unpack = [&](int unit, uint8_t* HWY_RESTRICT to) HWY_ATTR {
    for (int part = 0; part < 64; part += kBytes) {
      auto packed = hn::LoadU(d, codes + unit * 8 * kLow + part);
      [[maybe_unused]] auto packed2 = packed;  // the 2-bit plane of 6 bits: 4 units in 64 bytes
      if constexpr (kBits == 6) {
        packed2 = hn::LoadU(d, high + unit / 4 * 64 + part);
        if (unit % 4 != 0) packed2 = hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, packed2)));
      }
      for (int i = 0; i < kUnits; ++i) {
        auto code = hn::And(packed, low_mask);
        packed = hn::BitCast(d, hn::ShiftRight<kLow>(hn::BitCast(d16, packed)));
        if constexpr (kBits == 6) {
          const auto two = hn::And(packed2, hn::Set(d, 3));
          code = hn::Or(code, hn::BitCast(d, hn::ShiftLeft<4>(hn::BitCast(d16, two))));
          packed2 = hn::BitCast(d, hn::ShiftRight<2>(hn::BitCast(d16, packed2)));
        }
        if constexpr (kBits == 5 || kBits == 3) {
          const auto bit = hn::LoadMaskBits(d, high + (unit + i) * 8 + part / 8);
          code = hn::Or(code, hn::IfThenElseZero(bit, hn::Set(d, 1 << kLow)));
        }
        if constexpr (kBits <= 4) {
          code = hn::TableLookupBytes(table, code);
        } else {
          if (map.factor == 2) code = hn::Add(code, code);
          code = hn::Add(code, offset);
        }
        hn::StoreU(code, d, to + i * side * 64 + part);
      }
    }
  };
  for (int group = first; group < last; group += 4 * side)
    for (int block = 0; block < side; ++block)
      for (int unit = 0; unit < 4; unit += kUnits)
        unpack(group + block * 4 + unit, out + (group + unit * side + block) * 64);
}

// The plane's codes as bytes in the order of 8 bits: the page's own, or unpacked to `tile`.
HWY_INLINE const uint8_t* Unpack(const HostKvPlane& plane, const ByteMap& map,
                                 const std::byte* head, uint8_t* tile) {
  const auto* codes = reinterpret_cast<const uint8_t*>(head + plane.codes);
  const auto unpack = [&](int first, int last, int side) HWY_ATTR {
    switch (plane.codec.bits) {
      case 6: return UnpackBits<6>(codes, plane.dim, first, last, side, map, tile);
      case 5: return UnpackBits<5>(codes, plane.dim, first, last, side, map, tile);
      case 4: return UnpackBits<4>(codes, plane.dim, first, last, side, map, tile);
      case 3: return UnpackBits<3>(codes, plane.dim, first, last, side, map, tile);
      default: return UnpackBits<2>(codes, plane.dim, first, last, side, map, tile);
    }
  };
  if (plane.codec.bits == 8) return codes;
  // The last channels of V may have fewer blocks side by side.
  const int even = plane.value ? plane.dim / 64 * 64 : plane.dim;
  if (even > 0) unpack(0, even, kValueBlocks);
  if (even < plane.dim) unpack(even, plane.dim, value_blocks(plane.dim, even));
  return tile;
}

HWY_INLINE void LoadHalves(const std::byte* halves, int n, float* out) {
  const F32 d;
  const hn::Rebind<hwy::float16_t, F32> d16;
  const auto* in = reinterpret_cast<const hwy::float16_t*>(halves);
  for (int i = 0; i < n; i += kLanes)
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(d16, in + i)), d, out + i);
}

// ---- Q with K
// -------------------------------------------------------------------------------------

// out[r][t] = sum over channels [first, last) of q[r][c] * k[t][c]
// k: tile of `dim` channels; q [kRows], row stride dim; out row stride 64
template <int kRows>
HWY_NOINLINE void KeyDots(const uint8_t* HWY_RESTRICT k, int dim, int first, int last,
                          const int8_t* HWY_RESTRICT q, Ahead& ahead, int32_t* HWY_RESTRICT out) {
  Ahead asking = ahead;  // in registers
  const I32 d;
  const U8 d8;
  for (int column = 0; column < kColumns; column += kTileVectors) {
    const uint8_t* base[kTileVectors];
    for (int t = 0; t < kTileVectors; ++t) base[t] = k + (column + t) * kLanes * 4;
    hn::Vec<I32> sum[kRows][kTileVectors];
    for (int r = 0; r < kRows; ++r)
      for (int t = 0; t < kTileVectors; ++t) sum[r][t] = hn::Zero(d);
    for (int group = first; group < last; group += 16)  // groups are multiples of 16
#pragma GCC unroll 4
      for (int c = group; c < group + 16; c += 4) {
        const int at = c * kPageTokens;
        hn::Vec<U8> keys[kTileVectors];
        for (int t = 0; t < kTileVectors; ++t) keys[t] = hn::LoadU(d8, base[t] + at);
        asking.Ask();
        for (int r = 0; r < kRows; ++r) {
          const auto query = hn::BitCast(d8, hn::Set(d, LoadI32(q + r * dim + c)));
          for (int t = 0; t < kTileVectors; ++t) sum[r][t] = Dot4(sum[r][t], keys[t], query);
        }
      }
    for (int r = 0; r < kRows; ++r)
      for (int t = 0; t < kTileVectors; ++t)
        hn::StoreU(sum[r][t], d, out + r * kPageTokens + (column + t) * kLanes);
  }
  ahead = asking;
}

// The same over half-precision keys and float queries.
template <int kRows>
HWY_NOINLINE void KeyDotsHalf(const hwy::float16_t* HWY_RESTRICT k, int dim,
                              const float* HWY_RESTRICT q, Ahead& ahead, float* HWY_RESTRICT out) {
  Ahead asking = ahead;  // in registers
  const F32 d;
  const hn::Rebind<hwy::float16_t, F32> d16;
  for (int column = 0; column < kColumns; column += kTileVectors) {
    const hwy::float16_t* base[kTileVectors];
    for (int t = 0; t < kTileVectors; ++t) {
      const int token = (column + t) * kLanes;
      base[t] = k + token / kKvLanes * kHalvesRun * kKvLanes + token % kKvLanes;
    }
    hn::Vec<F32> sum[kRows][kTileVectors];
    for (int r = 0; r < kRows; ++r)
      for (int t = 0; t < kTileVectors; ++t) sum[r][t] = hn::Zero(d);
    for (int c = 0; c < dim; ++c) {
      const int at = c / kHalvesRun * kHalvesRun * kPageTokens + c % kHalvesRun * kKvLanes;
      hn::Vec<F32> keys[kTileVectors];
      for (int t = 0; t < kTileVectors; ++t)
        keys[t] = hn::PromoteTo(d, hn::LoadU(d16, base[t] + at));
      asking.Ask();
      for (int r = 0; r < kRows; ++r) {
        const auto query = hn::Set(d, q[r * dim + c]);
        for (int t = 0; t < kTileVectors; ++t) sum[r][t] = hn::MulAdd(keys[t], query, sum[r][t]);
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int t = 0; t < kTileVectors; ++t)
        hn::StoreU(sum[r][t], d, out + r * kPageTokens + (column + t) * kLanes);
  }
  ahead = asking;
}

// ---- P with V
// -------------------------------------------------------------------------------------

// What turns a page's sums into the running output: out = out * alpha + sum * scale + bias.
struct ValueUpdate {
  const float* alpha;  // [rows]
  const float* scale;  // [rows]
  const float* bias;   // [rows]
};

// Codes or halves of V before those of the 64 channels that `channel` is in.
HWY_INLINE int ValueBegin(int channel) {
  constexpr int kWidth = kValueBlocks * kKvLanes;
  return channel / kWidth * kWidth * kPageTokens;
}

// channels [first, first + kVectors * kLanes) of kRows rows, all of the same 64; tokens from
// `tokens` on have no weight. v: tile of `dim` channels; p [kRows][64 tokens], row stride
// p_stride; out row stride dim
template <int kRows, int kVectors>
HWY_NOINLINE void ValueDots(const uint8_t* HWY_RESTRICT v, int dim, int first, int tokens,
                            const uint8_t* HWY_RESTRICT p, int p_stride, const ValueUpdate& update,
                            Ahead& ahead, float* HWY_RESTRICT out) {
  Ahead asking = ahead;  // in registers
  const I32 d;
  const U8 d8;
  const F32 df;
  const uint8_t* base[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    const int channel = first + i * kLanes;
    base[i] = v + ValueBegin(channel) + channel % (kValueBlocks * kKvLanes) * 4;
  }
  hn::Vec<I32> sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int i = 0; i < kVectors; ++i) sum[r][i] = hn::Zero(d);
  const int step = value_blocks(dim, first) * 64;
  const uint8_t* const end = p + (tokens + 15) / 16 * 16;
  int at = 0;
  do {
#pragma GCC unroll 4
    for (int quad = 0; quad < 4; ++quad, at += step) {
      hn::Vec<U8> values[kVectors];
      for (int i = 0; i < kVectors; ++i) values[i] = hn::LoadU(d8, base[i] + at);
      asking.Ask();
      for (int r = 0; r < kRows; ++r) {
        const auto weight = hn::BitCast(d8, hn::Set(d, LoadI32(p + r * p_stride + quad * 4)));
        for (int i = 0; i < kVectors; ++i) sum[r][i] = Dot4(sum[r][i], weight, values[i]);
      }
    }
    p += 16;
  } while (p < end);
  for (int r = 0; r < kRows; ++r)
    for (int i = 0; i < kVectors; ++i) {
      float* o = out + r * dim + first + i * kLanes;
      const auto page = hn::MulAdd(hn::ConvertTo(df, sum[r][i]), hn::Set(df, update.scale[r]),
                                   hn::Set(df, update.bias[r]));
      hn::StoreU(hn::MulAdd(hn::LoadU(df, o), hn::Set(df, update.alpha[r]), page), df, o);
    }
  ahead = asking;
}

// The same over half-precision values and float weights.
template <int kRows, int kVectors>
HWY_NOINLINE void ValueDotsHalf(const hwy::float16_t* HWY_RESTRICT v, int dim, int first,
                                int tokens, const float* HWY_RESTRICT p, const float* alpha,
                                Ahead& ahead, float* HWY_RESTRICT out) {
  Ahead asking = ahead;  // in registers
  const F32 d;
  const hn::Rebind<hwy::float16_t, F32> d16;
  const hwy::float16_t* base[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    const int channel = first + i * kLanes;
    base[i] = v + ValueBegin(channel) + channel / kKvLanes % kValueBlocks * kHalvesRun * kKvLanes +
              channel % kKvLanes;
  }
  hn::Vec<F32> sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int i = 0; i < kVectors; ++i) sum[r][i] = hn::Zero(d);
  const int step = value_blocks(dim, first) * kHalvesRun * kKvLanes;
  for (int token = 0; token < tokens; ++token) {
    const int at = token / kHalvesRun * step + token % kHalvesRun * kKvLanes;
    hn::Vec<F32> values[kVectors];
    for (int i = 0; i < kVectors; ++i) values[i] = hn::PromoteTo(d, hn::LoadU(d16, base[i] + at));
    asking.Ask();
    for (int r = 0; r < kRows; ++r) {
      const auto weight = hn::Set(d, p[r * kPageTokens + token]);
      for (int i = 0; i < kVectors; ++i) sum[r][i] = hn::MulAdd(values[i], weight, sum[r][i]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int i = 0; i < kVectors; ++i) {
      float* o = out + r * dim + first + i * kLanes;
      hn::StoreU(hn::MulAdd(hn::LoadU(d, o), hn::Set(d, alpha[r]), sum[r][i]), d, o);
    }
  ahead = asking;
}

}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
#endif
