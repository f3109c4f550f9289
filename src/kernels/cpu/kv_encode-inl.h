// Encoding of one row of K or V, byte for byte as kernels/ref does: the same operations in the same
// order, without fused multiplication, sums in 16 partial sums. Included once per SIMD target.
#if defined(RINGKEEP_KERNELS_CPU_KV_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGKEEP_KERNELS_CPU_KV_ENCODE_INL_H_
#undef RINGKEEP_KERNELS_CPU_KV_ENCODE_INL_H_
#else
#define RINGKEEP_KERNELS_CPU_KV_ENCODE_INL_H_
#endif

#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "hwy/highway.h"
#include "kernels/api/host_kv.h"
#include "kernels/cpu/hadamard-inl.h"

#if HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE
HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kRowLanes = hn::MaxLanes(RowTag());
constexpr int kPartials = 16 / kRowLanes;  // vectors that hold the 16 partial sums

// The sum of the lanes, folded in halves
template <typename D>
HWY_INLINE float FoldLanes(D d, hn::Vec<D> x) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return FoldLanes(half, hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x)));
  } else {
    x = hn::Add(x, hn::Shuffle1032(x));
    return hn::GetLane(hn::Add(x, hn::Shuffle2301(x)));
  }
}

struct Sum16 {
  RowVec part[kPartials];

  Sum16() {
    for (RowVec& p : part) p = hn::Zero(RowTag());
  }
  // The terms of channels [i, i + kRowLanes)
  void Add(int i, RowVec terms) {
    RowVec& p = part[i / kRowLanes % kPartials];
    p = hn::Add(p, terms);
  }
  float Total() {
    for (int width = kPartials / 2; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) part[i] = hn::Add(part[i], part[i + width]);
    return FoldLanes(RowTag(), part[0]);
  }
};

HWY_INLINE RowVec LoadRow(const float* x, int i) { return hn::LoadU(RowTag(), x + i); }

HWY_INLINE void StoreCodes(RowVec code, uint8_t* codes) {
  const hn::Rebind<uint8_t, RowTag> d8;
  hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(hn::RebindToSigned<RowTag>(), code)), d8, codes);
}

HWY_INLINE float RowAbsMax(const float* x, int n) {
  const RowTag d;
  RowVec largest = hn::Zero(d);
  for (int i = 0; i < n; i += kRowLanes) largest = hn::Max(largest, hn::Abs(LoadRow(x, i)));
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

HWY_INLINE uint16_t Encode8(const float* x, int n, uint8_t* codes) {
  const RowTag d;
  const uint16_t scale = float_to_f16(RowAbsMax(x, n) / 127.0f);
  const RowVec inverse = hn::Set(d, scale != 0 ? 1.0f / f16_to_float(scale) : 0.0f);
  for (int i = 0; i < n; i += kRowLanes) {
    const RowVec q = hn::Round(hn::Mul(LoadRow(x, i), inverse));
    StoreCodes(hn::Add(hn::Clamp(q, hn::Set(d, -127.0f), hn::Set(d, 127.0f)), hn::Set(d, 128.0f)),
               codes + i);
  }
  return scale;
}

// The step of least squared error among `candidates`, then the codes, then the refitted scale.
// Grid: Level(x, inverse) -> |level| or level such that the error is Target(x) - level * step.
template <typename Grid>
HWY_INLINE uint16_t EncodeSearched(const Grid& grid, const float* x, int n, uint8_t* codes) {
  const RowTag d;
  float best = INFINITY;
  float step = grid.base;
  for (int candidate = 0; candidate < Grid::kCandidates; ++candidate) {
    const float s = grid.Step(candidate);
    const RowVec vs = hn::Set(d, s), inverse = hn::Set(d, 1.0f / s);
    Sum16 error;
    for (int i = 0; i < n; i += kRowLanes) {
      const RowVec target = grid.Target(LoadRow(x, i));
      const RowVec e = hn::Sub(target, hn::Mul(grid.Value(target, inverse), vs));
      error.Add(i, hn::Mul(e, e));
    }
    const float total = error.Total();
    step = total < best ? s : step;
    best = total < best ? total : best;
  }
  const RowVec inverse = hn::Set(d, 1.0f / step);
  Sum16 xq, qq;
  for (int i = 0; i < n; i += kRowLanes) {
    const RowVec value = LoadRow(x, i), target = grid.Target(value);
    const RowVec level = grid.Level(target, inverse);
    xq.Add(i, hn::Mul(target, level));
    qq.Add(i, hn::Mul(level, level));
    grid.Codes(value, target, inverse, codes + i);
  }
  return float_to_f16(xq.Total() / qq.Total());
}

// 6 and 5 bits: (q + 1/2) s
struct UniformGrid {
  static constexpr int kCandidates = 25;
  float half, base;

  UniformGrid(const float* x, int n, int bits)
      : half(static_cast<float>(1 << (bits - 1))), base(RowAbsMax(x, n) / (half - 0.5f)) {}
  float Step(int candidate) const {
    return base * (0.3f + 0.03125f * static_cast<float>(candidate));
  }
  RowVec Target(RowVec x) const { return x; }
  RowVec Quantize(RowVec x, RowVec inverse) const {
    const RowTag d;
    return hn::Min(hn::Max(hn::Floor(hn::Mul(x, inverse)), hn::Set(d, -half)),
                   hn::Set(d, half - 1.0f));
  }
  RowVec Value(RowVec x, RowVec inverse) const {
    return hn::Add(Quantize(x, inverse), hn::Set(RowTag(), 0.5f));
  }
  RowVec Level(RowVec x, RowVec inverse) const {
    const RowTag d;
    return hn::Add(hn::Mul(hn::Set(d, 2.0f), Quantize(x, inverse)), hn::Set(d, 1.0f));
  }
  void Codes(RowVec x, RowVec, RowVec inverse, uint8_t* codes) const {
    StoreCodes(hn::Add(Quantize(x, inverse), hn::Set(RowTag(), half)), codes);
  }
};

// 4, 3 and 2 bits: Lloyd-Max levels; works on magnitudes, since the grid is symmetric
template <int kHalf>
struct LevelGrid {
  static constexpr int kCandidates = 14;
  float base;
  float levels[kHalf];
  float borders[kHalf];  // borders[i] between levels i and i + 1

  LevelGrid(const float* x, int n, int bits) {
    Sum16 square;
    for (int i = 0; i < n; i += kRowLanes) square.Add(i, hn::Mul(LoadRow(x, i), LoadRow(x, i)));
    base = std::sqrt(square.Total() / static_cast<float>(n)) * (lloyd_max_top(bits) / 127.0f);
    const int8_t* table = lloyd_max_levels(bits);
    for (int i = 0; i < kHalf; ++i) levels[i] = table[i];
    for (int i = 0; i + 1 < kHalf; ++i)
      borders[i] = 0.5f * static_cast<float>(table[i] + table[i + 1]);
  }
  float Step(int candidate) const {
    return base * (0.8f + (0.5f / 13.0f) * static_cast<float>(candidate));
  }
  RowVec Target(RowVec x) const { return hn::Abs(x); }
  template <typename Pick>
  RowVec Search(RowVec magnitude, RowVec inverse, const Pick& pick) const {
    const RowTag d;
    const RowVec y = hn::Mul(magnitude, inverse);
    RowVec found = hn::Set(d, pick(0));
    for (int i = 0; i + 1 < kHalf; ++i)
      found = hn::IfThenElse(hn::Gt(y, hn::Set(d, borders[i])), hn::Set(d, pick(i + 1)), found);
    return found;
  }
  RowVec Level(RowVec magnitude, RowVec inverse) const {
    return Search(magnitude, inverse, [&](int i) { return levels[i]; });
  }
  RowVec Value(RowVec magnitude, RowVec inverse) const { return Level(magnitude, inverse); }
  void Codes(RowVec x, RowVec magnitude, RowVec inverse, uint8_t* codes) const {
    const RowTag d;
    const RowVec index = Search(magnitude, inverse, [](int i) { return static_cast<float>(i); });
    const RowVec up = hn::Add(index, hn::Set(d, static_cast<float>(kHalf)));
    const RowVec down = hn::Sub(hn::Set(d, static_cast<float>(kHalf - 1)), index);
    StoreCodes(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), down, up), codes);
  }
};

struct GroupScale {
  uint16_t scale = 0;  // f16
  uint16_t bias = 0;
};

HWY_INLINE GroupScale EncodeAffine(const float* x, int n, int bits, bool value, uint8_t* codes) {
  const RowTag d;
  const float bins = static_cast<float>((1 << bits) - 1);
  RowVec vlow = LoadRow(x, 0), vhigh = vlow;
  for (int i = kRowLanes; i < n; i += kRowLanes) {
    vlow = hn::Min(vlow, LoadRow(x, i));
    vhigh = hn::Max(vhigh, LoadRow(x, i));
  }
  const float low = hn::GetLane(hn::MinOfLanes(d, vlow)),
              high = hn::GetLane(hn::MaxOfLanes(d, vhigh));
  const bool at_low = std::abs(low) > std::abs(high);
  const float edge = at_low ? low : high;
  float scale = std::max((high - low) / bins, 1e-7f);
  if (!at_low) scale = -scale;
  const float steps = std::nearbyint(edge / scale);
  const float bias = steps != 0.0f ? edge : 0.0f;
  if (steps != 0.0f) scale = edge / steps;
  const RowVec vscale = hn::Set(d, scale), vbias = hn::Set(d, bias), vbins = hn::Set(d, bins);
  for (int i = 0; i < n; i += kRowLanes) {
    const RowVec q =
        hn::Clamp(hn::Round(hn::Div(hn::Sub(LoadRow(x, i), vbias), vscale)), hn::Zero(d), vbins);
    StoreCodes(value && scale < 0.0f ? hn::Sub(vbins, q) : q, codes + i);
  }
  return {float_to_f16(scale), float_to_f16(bias)};
}

HWY_INLINE GroupScale EncodeGroup(const HostKvPlane& plane, const float* x, uint8_t* codes) {
  const int n = plane.group;
  const int bits = plane.codec.bits;
  if (plane.codec.scheme == KvScheme::affine) return EncodeAffine(x, n, bits, plane.value, codes);
  if (bits == 8) return {.scale = Encode8(x, n, codes)};
  if (RowAbsMax(x, n) < 0x1p-18f) {
    std::memset(codes, 0, n);
    return {};
  }
  switch (bits) {
    case 4: return {.scale = EncodeSearched(LevelGrid<8>(x, n, bits), x, n, codes)};
    case 3: return {.scale = EncodeSearched(LevelGrid<4>(x, n, bits), x, n, codes)};
    case 2: return {.scale = EncodeSearched(LevelGrid<2>(x, n, bits), x, n, codes)};
    default: return {.scale = EncodeSearched(UniformGrid(x, n, bits), x, n, codes)};
  }
}

// ---- Codes into the page
// --------------------------------------------------------------------------

HWY_INLINE uint32_t LoadU32(const uint8_t* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

// Bytes of a block in a bit plane
HWY_INLINE int BlockBytes(const HostKvPlane& plane, int width) { return plane.run * 2 * width; }

// One bit plane of a row of K: bits [shift, shift + width) of the codes. Four channels share 32
// bits, so that only the 1-bit plane has bytes in common with another token.
template <int kWidth>
HWY_INLINE void StoreKeyPlane(const HostKvPlane& k, uint8_t* plane, int shift, const uint8_t* codes,
                              int token) {
  constexpr uint32_t kMask = 0x01010101u * ((1u << kWidth) - 1);
  constexpr int kTogether = kWidth == 1 ? 1 : 8 / kWidth;  // units that share their bytes
  const int lane = token % kKvLanes, bytes = BlockBytes(k, kWidth);
  uint8_t* block = plane + token / kKvLanes * bytes;
  for (int c = 0; c < k.dim; c += k.run, block += kPageTokens / kKvLanes * bytes) {
    for (int u = 0; u < k.run / 4; u += kTogether) {
      uint32_t word = 0;
      for (int i = 0; i < kTogether; ++i)
        word |= ((LoadU32(codes + c + 4 * (u + i)) >> shift) & kMask) << (i * kWidth);
      if constexpr (kWidth == 1) {
        uint8_t& byte = block[u * 8 + lane / 2];
        const int at = lane % 2 * 4;
        byte =
            static_cast<uint8_t>((byte & ~(0xF << at)) | ((word * 0x01020408u >> 24) & 0xF) << at);
      } else {
        std::memcpy(block + u / kTogether * 64 + lane * 4, &word, sizeof(word));
      }
    }
  }
}

// One bit plane of a row of V: in each unit of 16 channels the token owns `width` bits of 32.
template <int kWidth>
HWY_INLINE void StoreValuePlane(const HostKvPlane& v, uint8_t* plane, int shift,
                                const uint8_t* codes, int token) {
  const int unit = token % v.run / 4, lane = token % 4, bytes = BlockBytes(v, kWidth);
  const hn::RebindToUnsigned<RowTag> d;
  const hn::Rebind<uint8_t, RowTag> d8;
  constexpr int kTogether = 8 / kWidth;
  constexpr uint32_t kOnes = (1u << kWidth) - 1;
  const int place = lane * 8 + unit % kTogether * kWidth;  // of the code's lowest bit in its 32
  for (int c = 0; c < v.dim; c += kKvLanes) {
    uint8_t* block = plane + kv_block(v, token, c) * bytes;
    if constexpr (kWidth == 1) {
      uint64_t bits = 0;
      for (int i = 0; i < 16; ++i) bits |= uint64_t((codes[c + i] >> shift) & 1) << (4 * i);
      uint64_t word;
      std::memcpy(&word, block + unit * 8, sizeof(word));
      word = (word & ~(uint64_t{0x1111111111111111} << lane)) | bits << lane;
      std::memcpy(block + unit * 8, &word, sizeof(word));
    } else {
      for (int i = 0; i < kKvLanes; i += kRowLanes) {
        const auto code = hn::PromoteTo(d, hn::LoadU(d8, codes + c + i));
        const auto moved =
            hn::ShiftLeftSame(hn::And(hn::ShiftRightSame(code, shift), hn::Set(d, kOnes)), place);
        auto* at = reinterpret_cast<uint32_t*>(block + unit / kTogether * 64) + i;
        hn::StoreU(hn::Or(hn::AndNot(hn::Set(d, kOnes << place), hn::LoadU(d, at)), moved), d, at);
      }
    }
  }
}

HWY_INLINE void StorePlane(const HostKvPlane& plane, std::byte* head, uint8_t* codes, int token) {
  auto* at = reinterpret_cast<uint8_t*>(head + plane.codes);
  const int bits = plane.codec.bits, dim = plane.dim;
  const int low = bits == 6 || bits == 5 ? 4 : bits == 3 ? 2 : bits;
  const auto store_width = [&]<int kWidth>(std::integral_constant<int, kWidth>, uint8_t* to,
                                           int shift) {
    if (plane.value)
      StoreValuePlane<kWidth>(plane, to, shift, codes, token);
    else
      StoreKeyPlane<kWidth>(plane, to, shift, codes, token);
  };
  const auto store = [&](uint8_t* to, int width, int shift) {
    switch (width) {
      case 8: return store_width(std::integral_constant<int, 8>(), to, shift);
      case 4: return store_width(std::integral_constant<int, 4>(), to, shift);
      case 2: return store_width(std::integral_constant<int, 2>(), to, shift);
      default: return store_width(std::integral_constant<int, 1>(), to, shift);
    }
  };
  if (bits == 8 && plane.value)
    for (int i = 0; i < dim; ++i) codes[i] ^= 0x80;
  store(at, low, 0);
  if (bits > low) store(at + 8 * dim * low, bits - low, low);
}

// Highway truncates to half precision where the machine has no instruction for it.
#if HWY_ARCH_X86 && (HWY_TARGET >= HWY_SSE4 || defined(HWY_DISABLE_F16C))
HWY_INLINE void ToHalves(const float* x, int n, uint16_t* out) {
  for (int i = 0; i < n; ++i) out[i] = float_to_f16(x[i]);
}
#else
HWY_INLINE void ToHalves(const float* x, int n, uint16_t* out) {
  const hn::Rebind<hwy::float16_t, RowTag> d16;
  for (int i = 0; i < n; i += kRowLanes)
    hn::StoreU(hn::DemoteTo(d16, LoadRow(x, i)), d16, reinterpret_cast<hwy::float16_t*>(out + i));
}
#endif

HWY_INLINE void StoreHalves(const HostKvPlane& plane, std::byte* head, const float* x, int token) {
  HWY_ALIGN uint16_t halves[kMaxHeadDim];
  ToHalves(x, plane.dim, halves);
  auto* to = reinterpret_cast<uint16_t*>(head + plane.codes);
  constexpr int kBlock = kHalvesRun * kKvLanes;
  if (plane.value) {
    for (int c = 0; c < plane.dim; c += kKvLanes)
      std::memcpy(to + kv_block(plane, token, c) * kBlock + token % kHalvesRun * kKvLanes,
                  halves + c, 2 * kKvLanes);
    return;
  }
  to += token / kKvLanes * kBlock + token % kKvLanes;
  for (int c = 0; c < plane.dim; c += kHalvesRun, to += kPageTokens / kKvLanes * kBlock)
    for (int i = 0; i < kHalvesRun; ++i) to[i * kKvLanes] = halves[c + i];
}

// x [dim]: the row as its codec takes it, rotated if it is a rotated one. Returns false, and makes
// it zeros, when it is not finite.
HWY_INLINE bool LoadSource(const KvCodec& codec, int dim, const float* source, float* x) {
  const RowTag d;
  auto fine = hn::Le(hn::Abs(LoadRow(source, 0)), hn::Set(d, kMaxKvMagnitude));
  for (int i = 0; i < dim; i += kRowLanes) {
    const RowVec value = LoadRow(source, i);
    fine = hn::And(fine, hn::Le(hn::Abs(value), hn::Set(d, kMaxKvMagnitude)));
    hn::Store(value, d, x + i);
  }
  const bool finite = hn::AllTrue(d, fine);
  if (!finite) std::memset(x, 0, sizeof(float) * dim);
  if (codec.rotated()) Hadamard(x, dim);
  return finite;
}

// Returns false, and stores zeros, when halves cannot hold a rotated row.
HWY_INLINE bool EncodeRow(const HostKvPlane& plane, const float* x, std::byte* head, int token) {
  if (plane.codec.halves()) {
    const bool fits = !plane.codec.rotated() || RowAbsMax(x, plane.dim) <= kMaxKvMagnitude;
    HWY_ALIGN const float zeros[kMaxHeadDim] = {};
    StoreHalves(plane, head, fits ? x : zeros, token);
    return fits;
  }
  HWY_ALIGN uint8_t codes[kMaxHeadDim];
  for (int g = 0; g < plane.groups; ++g) {
    const GroupScale group = EncodeGroup(plane, x + g * plane.group, codes + g * plane.group);
    std::memcpy(head + scale_offset(plane, token, g), &group.scale, 2);
    if (plane.codec.scheme == KvScheme::affine)
      std::memcpy(head + bias_offset(plane, token, g), &group.bias, 2);
  }
  StorePlane(plane, head, codes, token);
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
#endif
