// Walks over the blocks of a packed matrix and the rows of x: which kernel takes which of them.
#if defined(RK_LINEAR_BLOCKS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RK_LINEAR_BLOCKS_INL
#undef RK_LINEAR_BLOCKS_INL
#else
#define RK_LINEAR_BLOCKS_INL
#endif

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/linear_units-inl.h"

#if RK_LINEAR_VECTORS
HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {

// From so many rows of x on, weights are unpacked once for all of them.
constexpr int64_t kUnpackRows = 5;

template <int kValue>
using Number = std::integral_constant<int, kValue>;

// The kBits of load_units
constexpr int unpacked_as(const quant::WeightSpec& spec) {
  return spec.codes == quant::CodeKind::e2m1 ? kE2m1 : spec.bits;
}

// body(Number<unpacked_as(spec)>)
template <typename Body>
HWY_INLINE void with_bits(const quant::WeightSpec& spec, const Body& body) {
  switch (unpacked_as(spec)) {
    case 2: return body(Number<2>());
    case 3: return body(Number<3>());
    case 4: return body(Number<4>());
    case kE2m1: return body(Number<kE2m1>());
    case 5: return body(Number<5>());
    case 6: return body(Number<6>());
    default: return body(Number<8>());
  }
}

// n rows in steps of kMost, 4, 2 and 1, the sizes that have kernels: body(Number<step>, row).
template <int kMost, typename Body>
HWY_INLINE void for_row_steps(int64_t n, const Body& body) {
  int64_t r = 0;
  for (; n - r >= kMost; r += kMost) body(Number<kMost>(), r);
  if constexpr (kMost > 4) {
    if (n - r >= 4) body(Number<4>(), r), r += 4;
  }
  if (n - r >= 2) body(Number<2>(), r), r += 2;
  if (n - r >= 1) body(Number<1>(), r);
}

// Blocks [block0, block1) of w for n rows of x: body(Number<kBits>, spec, layout, block, b), of
// the block as it is or unpacked into `scratch`.
template <typename Body>
HWY_INLINE void for_blocks(const PackedTensor& w, int64_t n, int64_t block0, int64_t block1,
                           std::byte* scratch, const Body& body) {
  const HostLayout layout = host_layout(w.spec, w.cols);
  const quant::WeightSpec plain = plain_spec(w.spec);
  const HostLayout plain_layout = host_layout(plain, w.cols);
  for (int64_t b = block0; b < block1; ++b) {
    if (n >= kUnpackRows) {
      transcode_block(w, b, plain_offset(w.spec), scratch);
      body(Number<8>(), plain, plain_layout, HostBlock{scratch, plain_layout.section_bytes}, b);
    } else {
      with_bits(w.spec, [&](auto bits)
                            HWY_ATTR { body(bits, w.spec, layout, host_block(w, layout, b), b); });
    }
  }
}

// y [n, 16] of block b, times scale [n], into the output's rows from `row` on. The last row of the
// matrix may cut the block short.
inline void store_block(const LinearOutput& out, const float* scale, int64_t row, int64_t n,
                        int64_t b, const float* y) {
  const int64_t first = b * kRowBlock;
  const int64_t count = std::min<int64_t>(kRowBlock, out.weight->rows - first);
  for (int64_t r = 0; r < n; ++r) {
    float* to = out.y + (row + r) * out.y_stride + first;
    for (int64_t i = 0; i < count; ++i) {
      const float value = y[r * kRowBlock + i] * scale[r];
      to[i] = out.bias != nullptr ? value + out.bias[first + i] : value;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif  // vectors
#endif
