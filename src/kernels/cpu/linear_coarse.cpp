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
    VI sum = hn::Zero(DI());
    for (int64_t j = 0; j < 16; j += int64_t(hn::Lanes(DF()))) {
      const VF t = hn::Mul(hn::LoadU(DF(), x + i + j), inverse);
      const VI high = rounded(t);
      hn::StoreU(hn::DemoteTo(d8, high), d8, hi + j);
      sum = hn::Add(sum, hn::ShiftLeft<8>(high));
      if (!fine) continue;
      const VI low = rounded(hn::Mul(hn::Sub(t, hn::ConvertTo(DF(), high)), hn::Set(DF(), 256.0f)));
      hn::StoreU(hn::DemoteTo(d8, low), d8, lo + j);
      sum = hn::Add(sum, low);
    }
    for (int quad = 0; quad < 4; ++quad) {
      std::memcpy(q.hi + q.at(row, i + 4 * quad), hi + 4 * quad, 4);
      std::memcpy(q.lo + q.at(row, i + 4 * quad), lo + 4 * quad, 4);
    }
    q.fine[run * q.rows + row] = fine;
    const float part = float(hn::GetLane(hn::SumOfLanes(DI(), sum)));
    q.sums16[i / 16 * q.rows + row] = step * (part * (1.0f / 256.0f));
    if (i % CoarseX::kRun == 0) continue;
    q.sums32[run * q.rows + row] =
        q.sums16[(i / 16 - 1) * q.rows + row] + q.sums16[i / 16 * q.rows + row];
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
      : hi(x.hi + x.at(row0, column)),
        lo(x.lo + x.at(row0, column)),
        step(x.step + column / CoarseX::kRun * x.rows + row0),
        sum((kPart == 16 ? x.sums16 : x.sums32) + column / kPart * x.rows + row0) {
    std::memcpy(&fine, x.fine + column / CoarseX::kRun * x.rows + row0, kRows);
  }
  const int8_t* hi;
  const int8_t* lo;
  const float* step;
  const float* sum;
  uint64_t fine = 0;  // not 0: a row has second terms
};

// Adds one part to acc [kRows].
template <int kRows, int kPart, typename Load>
HWY_INLINE void add_part(const Place<kRows, kPart>& at, const Load& load, VF scale, VF bias,
                         VF (&acc)[kRows]) {
  VI dot[kRows];
  VF value[kRows];
  for (int r = 0; r < kRows; ++r) dot[r] = hn::Zero(DI());
  add_terms<kRows, kPart>(at.hi, load, dot);
  if (HWY_LIKELY(at.fine == 0)) {
    for (int r = 0; r < kRows; ++r) value[r] = hn::ConvertTo(DF(), dot[r]);
  } else {
    for (int r = 0; r < kRows; ++r) dot[r] = hn::ShiftLeft<8>(dot[r]);
    add_terms<kRows, kPart>(at.lo, load, dot);
    const VF unit = hn::Set(DF(), 1.0f / 256.0f);  // exact, and no change of a row whose lo is 0
    for (int r = 0; r < kRows; ++r) value[r] = hn::Mul(hn::ConvertTo(DF(), dot[r]), unit);
  }
  for (int r = 0; r < kRows; ++r) {
    acc[r] = hn::MulAdd(hn::Mul(scale, hn::Set(DF(), at.step[r])), value[r], acc[r]);
    acc[r] = hn::MulAdd(bias, hn::Set(DF(), at.sum[r]), acc[r]);
  }
}

// One block for kRows rows of x from `row0` on, all of one tile; y [kRows, 16] receives the sums.
template <int kBits, int kRows, int kPart>
HWY_NOINLINE void dots(const quant::WeightSpec& spec, const HostLayout& layout,
                       const std::byte* block, const CoarseX& x, int64_t row0, float* y) {
  const bool affine = spec.kind == quant::WeightKind::affine;
  const bool ahead = stream_prefetch_pays();
  const VF zero = hn::Set(DF(), -float(spec.zero));
  for (int row = 0; row < kRowBlock; row += int(hn::Lanes(DF()))) {
    VF acc[kRows];
    for (int r = 0; r < kRows; ++r) acc[r] = hn::Zero(DF());
    GroupReader reader(spec, layout, block, row);
    for (int64_t column = 0; column < x.cols;) {
      VF scale = hn::Zero(DF()), bias = hn::Zero(DF());
      const std::byte* codes = reader.next(scale, bias);
      if (kRows <= 4 && ahead)  // a short step is bound by memory
        prefetch_stream(codes, layout.code_bytes + layout.scale_bytes);
      if (!affine) bias = hn::Mul(scale, zero);
      for (int quad0 = 0; quad0 < spec.group / 16; quad0 += kPart / 16, column += kPart) {
        V8 four[4];
        const auto load = [&](int unit) HWY_ATTR {
          if constexpr (kBits == 8) return load_codes(codes + (4 * quad0 + unit) * kUnitBytes, row);
          if (unit % 4 == 0) load_units<kBits>(codes, spec.group / 4, quad0 + unit / 4, row, four);
          return four[unit % 4];
        };
        add_part(Place<kRows, kPart>(x, row0, column), load, scale, bias, acc);
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
  hi = reinterpret_cast<int8_t*>(take(size_t(rows * cols)));
  lo = reinterpret_cast<int8_t*>(take(size_t(rows * cols)));
  step = floats(runs());
  sums16 = floats(cols / 16);
  sums32 = floats(cols / 32);
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
