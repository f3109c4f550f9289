// Products of prompt rows with packed weights: one int8 term of x where that is enough, so that
// they take little more than half the dot products of linear_packed.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_coarse.cpp"
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/simd.h"
// After simd.h: it follows the target.
#include "kernels/cpu/linear_units-inl.h"

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
  const VF zero = hn::Set(DF(), -float(spec.zero));
  for (int row = 0; row < kRowBlock; row += int(hn::Lanes(DF()))) {
    VF acc[kRows];
    for (int r = 0; r < kRows; ++r) acc[r] = hn::Zero(DF());
    GroupReader reader(spec, layout, block, row);
    for (int64_t column = 0; column < x.cols;) {
      VF scale = hn::Zero(DF()), bias = hn::Zero(DF());
      const std::byte* codes = reader.next(scale, bias);
      if constexpr (kRows <= 4)  // a short step is bound by memory
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

// y [n, 16] of block b into the output, whose last block may be cut short.
void store_block(const LinearOutput& out, const float* scale, int64_t row, int64_t n, int64_t b,
                 const float* y) {
  const int64_t first = b * kRowBlock;
  const int64_t count = std::min<int64_t>(kRowBlock, out.weight->rows - first);
  for (int64_t r = 0; r < n; ++r) {
    float* to = out.y + (row + r) * out.y_stride + first;
    for (int64_t o = 0; o < count; ++o) {
      const float value = y[r * kRowBlock + o] * scale[r];
      to[o] = out.bias != nullptr ? value + out.bias[first + o] : value;
    }
  }
}

template <int kBits, int kRows>
void any_part(const quant::WeightSpec& spec, const HostLayout& layout, const std::byte* block,
              const CoarseX& x, int64_t row0, float* y) {
  if (spec.group < CoarseX::kRun)
    dots<kBits, kRows, 16>(spec, layout, block, x, row0, y);
  else
    dots<kBits, kRows, 32>(spec, layout, block, x, row0, y);
}

// Rows [row0, row0 + n) of x, row0 at the beginning of a tile, of a block whose spec this is.
template <int kBits>
void block_rows(const LinearOutput& out, const quant::WeightSpec& spec, const HostLayout& layout,
                const std::byte* block, const CoarseX& x, int64_t row0, int64_t n, int64_t b) {
  HWY_ALIGN float y[kTile * kRowBlock];
  for (int64_t r = 0, rows = 0; r < n; r += rows) {
    const int64_t left = n - r;
    rows = kBits == 8 && left >= kTile ? kTile : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    if (rows == kTile) {
      any_part<8, kTile>(spec, layout, block, x, row0 + r, y);
    } else if (rows == 4) {
      any_part<kBits, 4>(spec, layout, block, x, row0 + r, y);
    } else if (rows == 2) {
      any_part<kBits, 2>(spec, layout, block, x, row0 + r, y);
    } else {
      any_part<kBits, 1>(spec, layout, block, x, row0 + r, y);
    }
    store_block(out, x.scale + row0 + r, r, rows, b, y);
  }
}

void run(const LinearOutput& out, const CoarseX& x, int64_t row0, int64_t n, int64_t block0,
         int64_t block1, std::byte* scratch) {
  constexpr int64_t kUnpackRows = 5;  // from here on weights are unpacked once for all rows
  const PackedTensor& w = *out.weight;
  const HostLayout layout = host_layout(w.spec, w.cols);
  const quant::WeightSpec plain = plain_spec(w.spec);
  const HostLayout plain_layout = host_layout(plain, w.cols);
  for (int64_t b = block0; b < block1; ++b) {
    const std::byte* block = w.data + size_t(b) * layout.block_bytes;
    if (n >= kUnpackRows) {
      transcode_block(w.spec, w.cols, block, 0, scratch);
      block_rows<8>(out, plain, plain_layout, scratch, x, row0, n, b);
      continue;
    }
    switch (w.spec.bits) {
      case 2: block_rows<2>(out, w.spec, layout, block, x, row0, n, b); break;
      case 3: block_rows<3>(out, w.spec, layout, block, x, row0, n, b); break;
      case 4:
        if (w.spec.codes == quant::CodeKind::e2m1)
          block_rows<kE2m1>(out, w.spec, layout, block, x, row0, n, b);
        else
          block_rows<4>(out, w.spec, layout, block, x, row0, n, b);
        break;
      case 5: block_rows<5>(out, w.spec, layout, block, x, row0, n, b); break;
      case 6: block_rows<6>(out, w.spec, layout, block, x, row0, n, b); break;
      default: block_rows<8>(out, w.spec, layout, block, x, row0, n, b); break;
    }
  }
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
