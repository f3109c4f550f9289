// Products of prompt rows with packed weights: one int8 term of x where that is enough, so that
// they take little more than half the dot products of linear_packed.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_coarse.cpp"
#include <algorithm>
#include <cstring>

#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/target.h"
// After simd.h: it follows the target.
#include "kernels/cpu/linear_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {
#if RK_LINEAR_VECTORS

constexpr int kTile = CoarseX::kTile;

// Adds to dot [kRows] the products of kPart columns with terms of x, the rows of a tile from the
// pointer on. `load(unit)` reads a unit of the codes.
template <int kRows, int kPart, typename Load>
HWY_INLINE void add_terms(const int8_t* terms, const Load& load, VI (&dot)[kRows]) {
  for (int unit = 0; unit < kPart / 4; ++unit, terms += 4 * kTile) {
    const V8 u = load(unit);
    for (int r = 0; r < kRows; ++r) dot[r] = dot4(dot[r], u, terms + 4 * r);
  }
}

// Where the rows of a tile stand in x: kPart columns, which share a step of x and a scale of the
// weights, from `column` on.
template <int kRows, int kPart>
struct Place {
  Place(const CoarseX& x, int64_t row0, int64_t column)
      : hi(x.hi + x.at(row0, column)), lo(x.lo + x.at(row0, column)) {
    const CoarseX::Sums& sums = kPart == 16 ? x.sums16 : x.sums32;
    const int64_t at = CoarseX::at_part(row0, column / kPart, x.cols / kPart);
    sum = sums.x + at;
    hi_start = sums.hi + at;
    lo_start = sums.lo + at;
    std::memcpy(&fine, x.fine + CoarseX::at_part(row0, column / CoarseX::kRun, x.runs()), kRows);
  }
  const int8_t* hi;
  const int8_t* lo;
  const float* sum;
  const int32_t* hi_start;
  const int32_t* lo_start;
  uint64_t fine = 0;  // not 0: a row has second terms
};

// The dot products of one part with codes whose zero is `zero`, over 256.
template <int kRows, int kPart, typename Load>
HWY_INLINE void part_dots(const Place<kRows, kPart>& at, const Load& load, int zero,
                          VF (&value)[kRows]) {
  VI dot[kRows];
  const auto add_start = [&](const int32_t* start) HWY_ATTR {
    if (zero == 0) return;
    for (int r = 0; r < kRows; ++r)
      dot[r] = hn::Add(dot[r],
                       hn::Set(DI(), zero == kPlainZero ? start[r] : start[r] / kPlainZero * zero));
  };
  for (int r = 0; r < kRows; ++r) dot[r] = hn::Zero(DI());
  add_start(at.hi_start);
  add_terms<kRows, kPart>(at.hi, load, dot);
  if (HWY_LIKELY(at.fine == 0)) {
    for (int r = 0; r < kRows; ++r) value[r] = hn::ConvertTo(DF(), dot[r]);
    return;
  }
  for (int r = 0; r < kRows; ++r) dot[r] = hn::ShiftLeft<8>(dot[r]);
  add_start(at.lo_start);
  add_terms<kRows, kPart>(at.lo, load, dot);
  const VF unit = hn::Set(DF(), 1.0f / 256.0f);  // exact, and no change of a row whose lo is 0
  for (int r = 0; r < kRows; ++r) value[r] = hn::Mul(hn::ConvertTo(DF(), dot[r]), unit);
}

// One block for kRows rows of x from `row0` on, all of one tile; y [kRows, 16] receives the sums.
template <int kBits, int kRows, int kPart>
HWY_NOINLINE void dots(const quant::WeightSpec& spec, const HostLayout& layout,
                       const HostBlock& block, const CoarseX& x, int64_t row0, float* y) {
  const bool affine = spec.kind == quant::WeightKind::affine;
  const int zero = affine ? 0 : spec.zero;
  const int quads = spec.group / 16;
  // A short step waits for memory.
  StreamAhead stream(block.data, kRows <= 4 && stream_prefetch_pays());
  for (int row = 0; row < kRowBlock; row += int(hn::Lanes(DF()))) {
    VF acc[kRows];
    for (int r = 0; r < kRows; ++r) acc[r] = hn::Zero(DF());
    GroupReader reader(spec, layout, block, row);
    const std::byte* codes = nullptr;
    int quad = quads;  // of the group, 16 columns each
    VF scale = hn::Zero(DF()), bias[2], part[kRows];
    // Part number kNumber of those under one step
    const auto add_part = [&](auto number, const Place<kRows, kPart>& at) HWY_ATTR {
      constexpr int kNumber = decltype(number)::value;
      if (kPart == 16 || quad == quads) {
        codes = reader.next();
        stream.ask<0>(reader.end());
        reader.scales(scale, bias[kNumber]);
        quad = 0;
      }
      V8 four[4];
      const auto load = [&](int unit) HWY_ATTR {
        if constexpr (kBits == 8) return load_codes(codes + (4 * quad + unit) * kUnitBytes, row);
        if (unit % 4 == 0) load_units<kBits>(codes, spec.group / 4, quad + unit / 4, row, four);
        return four[unit % 4];
      };
      VF value[kRows];
      part_dots(at, load, zero, value);
      for (int r = 0; r < kRows; ++r)
        part[r] = kNumber == 0 ? hn::Mul(scale, value[r]) : hn::MulAdd(scale, value[r], part[r]);
      quad += kPart / 16;
    };
    const float* steps = x.step + CoarseX::at_part(row0, 0, x.runs());
    for (int64_t column = 0; column < x.cols; column += CoarseX::kRun, steps += kTile) {
      const Place<kRows, kPart> first(x, row0, column);
      add_part(Number<0>(), first);
      const bool two = kPart == 16 && column + 16 < x.cols;
      if (two) add_part(Number<1>(), Place<kRows, kPart>(x, row0, column + 16));
      for (int r = 0; r < kRows; ++r) {
        acc[r] = hn::MulAdd(hn::Set(DF(), steps[r]), part[r], acc[r]);
        if (!affine) continue;
        acc[r] = hn::MulAdd(bias[0], hn::Set(DF(), first.sum[r]), acc[r]);
        if (two) acc[r] = hn::MulAdd(bias[1], hn::Set(DF(), first.sum[kTile + r]), acc[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) hn::StoreU(acc[r], DF(), y + r * kRowBlock + row);
  }
}

void run(const LinearOutput& out, const CoarseX& x, int64_t row0, int64_t n, int64_t block0,
         int64_t block1, std::byte* scratch) {
  HWY_ALIGN float y[kTile * kRowBlock];
  for_blocks(*out.weight, n, block0, block1, scratch,
             [&](auto bits, const quant::WeightSpec& spec, const HostLayout& layout,
                 const HostBlock& block, int64_t b) HWY_ATTR {
               constexpr int kBits = decltype(bits)::value;
               for_row_steps<kBits == 8 ? kTile : 4>(n, [&](auto rows, int64_t r) HWY_ATTR {
                 constexpr int kRows = decltype(rows)::value;
                 if (spec.group < CoarseX::kRun)
                   dots<kBits, kRows, 16>(spec, layout, block, x, row0 + r, y);
                 else
                   dots<kBits, kRows, 32>(spec, layout, block, x, row0 + r, y);
                 store_block(out, x.scale + row0 + r, r, kRows, b, y);
               });
             });
}

#else
void run(const LinearOutput&, const CoarseX&, int64_t, int64_t, int64_t, int64_t, std::byte*) {}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringkeep::kernels::cpu {

HWY_EXPORT(run);

void coarse_run(const LinearOutput& out, const CoarseX& x, int64_t row0, int64_t n, int64_t block0,
                int64_t block1, std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(run)(out, x, row0, n, block0, block1, scratch);
}

}  // namespace ringkeep::kernels::cpu
#endif
