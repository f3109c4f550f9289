// Products of prompt rows with packed weights: one int8 term of x where that is enough, so that
// they take little more than half the dot products of linear_packed.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_coarse.cpp"
#include <algorithm>
#include <cmath>
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

// A row's steps, and the limit over which a squared one asks for a second term. Returns false if a
// value is not finite.
bool find_steps(const float* x, const CoarseX& q, int64_t row, float& limit) {
  const auto magnitude = hn::Set(DI(), 0x7fffffff);
  float squares = 0.0f;
  for (int64_t run = 0; run < q.runs(); ++run) {
    const int64_t first = run * CoarseX::kRun, end = std::min(q.cols, first + CoarseX::kRun);
    VI bits = hn::Zero(DI());  // they order NaN above infinity above all numbers
    for (int64_t i = first; i < end; i += int64_t(hn::Lanes(DF())))
      bits = hn::Max(bits, hn::And(hn::BitCast(DI(), hn::LoadU(DF(), x + i)), magnitude));
    const float max = hn::GetLane(hn::BitCast(DF(), hn::MaxOfLanes(DI(), bits)));
    if (!(max < INFINITY)) return false;
    const float step = max < 0x1p-100f ? 0.0f : max / 127.0f;
    q.step[run * q.rows + row] = step;
    squares += step * step;
  }
  limit = CoarseX::kFineSquares * squares / float(q.runs());
  return true;
}

void quantize(const float* x, const CoarseX& q, int64_t row) {
  const hn::Rebind<int8_t, DF> d8;
  const VI most = hn::Set(DI(), 127);
  const auto rounded = [&](VF t) HWY_ATTR {
    return hn::Max(hn::Min(hn::NearestInt(t), most), hn::Neg(most));
  };
  float limit = 0.0f;
  q.scale[row] = find_steps(x, q, row, limit) ? 1.0f : NAN;
  if (std::isnan(q.scale[row])) return;
  for (int64_t i = 0; i < q.cols; i += 16) {
    const int64_t run = i / CoarseX::kRun;
    const float step = q.step[run * q.rows + row];
    const bool fine = step * step > limit;
    const VF inverse = hn::Set(DF(), step > 0.0f ? 1.0f / step : 0.0f);
    int8_t hi[16], lo[16] = {};
    VI hi_sum = hn::Zero(DI()), lo_sum = hn::Zero(DI());
    for (int64_t j = 0; j < 16; j += int64_t(hn::Lanes(DF()))) {
      const VF t = hn::Mul(hn::LoadU(DF(), x + i + j), inverse);
      const VI high = rounded(t);
      hn::StoreU(hn::DemoteTo(d8, high), d8, hi + j);
      hi_sum = hn::Add(hi_sum, high);
      if (!fine) continue;
      const VI low = rounded(hn::Mul(hn::Sub(t, hn::ConvertTo(DF(), high)), hn::Set(DF(), 256.0f)));
      hn::StoreU(hn::DemoteTo(d8, low), d8, lo + j);
      lo_sum = hn::Add(lo_sum, low);
    }
    for (int quad = 0; quad < 4; ++quad) {
      std::memcpy(q.hi + q.at(row, i + 4 * quad), hi + 4 * quad, 4);
      std::memcpy(q.lo + q.at(row, i + 4 * quad), lo + 4 * quad, 4);
    }
    q.fine[run * q.rows + row] = fine;
    const int32_t high = hn::GetLane(hn::SumOfLanes(DI(), hi_sum));
    const int32_t low = fine ? hn::GetLane(hn::SumOfLanes(DI(), lo_sum)) : 0;
    const int64_t at16 = i / 16 * q.rows + row, at32 = run * q.rows + row;
    q.sums16.x[at16] = step * (float(256 * high + low) * (1.0f / 256.0f));
    q.sums16.hi[at16] = -kPlainZero * high;
    q.sums16.lo[at16] = -kPlainZero * low;
    if (i % CoarseX::kRun == 0) continue;
    const int64_t first = at16 - q.rows;
    q.sums32.x[at32] = q.sums16.x[first] + q.sums16.x[at16];
    q.sums32.hi[at32] = q.sums16.hi[first] + q.sums16.hi[at16];
    q.sums32.lo[at32] = q.sums16.lo[first] + q.sums16.lo[at16];
  }
}

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
    const int64_t at = column / kPart * x.rows + row0;
    sum = sums.x + at;
    hi_start = sums.hi + at;
    lo_start = sums.lo + at;
    std::memcpy(&fine, x.fine + column / CoarseX::kRun * x.rows + row0, kRows);
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
                       const std::byte* block, const CoarseX& x, int64_t row0, float* y) {
  const bool affine = spec.kind == quant::WeightKind::affine;
  const int zero = affine ? 0 : spec.zero;
  const int quads = spec.group / 16;
  // A short step waits for memory.
  StreamAhead stream(block, kRows <= 4 && stream_prefetch_pays());
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
    const float* steps = x.step + row0;
    for (int64_t column = 0; column < x.cols; column += CoarseX::kRun, steps += x.rows) {
      const Place<kRows, kPart> first(x, row0, column);
      add_part(Number<0>(), first);
      const bool two = kPart == 16 && column + 16 < x.cols;
      if (two) add_part(Number<1>(), Place<kRows, kPart>(x, row0, column + 16));
      for (int r = 0; r < kRows; ++r) {
        acc[r] = hn::MulAdd(hn::Set(DF(), steps[r]), part[r], acc[r]);
        if (!affine) continue;
        acc[r] = hn::MulAdd(bias[0], hn::Set(DF(), first.sum[r]), acc[r]);
        if (two) acc[r] = hn::MulAdd(bias[1], hn::Set(DF(), first.sum[x.rows + r]), acc[r]);
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
                 const std::byte* block, int64_t b) HWY_ATTR {
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
void quantize(const float*, const CoarseX&, int64_t) {}
void run(const LinearOutput&, const CoarseX&, int64_t, int64_t, int64_t, int64_t, std::byte*) {}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringkeep::kernels::cpu {

HWY_EXPORT(quantize);
HWY_EXPORT(run);

size_t CoarseX::place(int64_t row_count, int64_t columns, std::byte* memory) {
  rows = (row_count + kTile - 1) / kTile * kTile;
  cols = columns;
  size_t used = 0;
  const auto take = [&](size_t bytes) {
    std::byte* at = memory != nullptr ? memory + used : nullptr;
    used += (bytes + 63) / 64 * 64;
    return at;
  };
  const auto floats = [&](int64_t count) {
    return reinterpret_cast<float*>(take(size_t(count * rows) * sizeof(float)));
  };
  const auto ints = [&](int64_t count) {
    return reinterpret_cast<int32_t*>(take(size_t(count * rows) * sizeof(int32_t)));
  };
  hi = reinterpret_cast<int8_t*>(take(size_t(rows * cols)));
  lo = reinterpret_cast<int8_t*>(take(size_t(rows * cols)));
  step = floats(runs());
  for (Sums* sums : {&sums16, &sums32}) {
    const int64_t count = cols / (sums == &sums16 ? 16 : 32);
    *sums = {floats(count), ints(count), ints(count)};
  }
  scale = floats(1);
  fine = reinterpret_cast<uint8_t*>(take(size_t(runs() * rows)));
  return used;
}

void coarse_quantize(const float* x, const CoarseX& q, int64_t row) {
  HWY_DYNAMIC_DISPATCH(quantize)(x, q, row);
}

void coarse_run(const LinearOutput& out, const CoarseX& x, int64_t row0, int64_t n, int64_t block0,
                int64_t block1, std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(run)(out, x, row0, n, block0, block1, scratch);
}

}  // namespace ringkeep::kernels::cpu
#endif
