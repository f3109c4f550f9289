// What attention works on: the memory of a thread, the pages of a tier, the queries. Included once
// per SIMD target.
#if defined(RINGKEEP_KERNELS_CPU_ATTENTION_PARTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGKEEP_KERNELS_CPU_ATTENTION_PARTS_INL_H_
#undef RINGKEEP_KERNELS_CPU_ATTENTION_PARTS_INL_H_
#else
#define RINGKEEP_KERNELS_CPU_ATTENTION_PARTS_INL_H_
#endif

#include <algorithm>

#include "kernels/api/host_kv.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/attention_tiles-inl.h"
#include "kernels/cpu/softmax-inl.h"

#if HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE
HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {

// Memory of one thread: a page's tiles and scales, and the state of a block of rows.
struct Workspace {
  uint8_t* k_tile;       // [64 * k_dim]
  uint8_t* v_tile;       // [64 * v_dim]
  float* k_scale;        // [k_groups][64]
  float* k_bias;         // [k_groups][64]
  float* v_scale;        // [v_groups][64], absolute
  float* v_bias;         // [v_groups][64]
  float* score;          // [rows][64]
  uint8_t* p;            // [rows][v_groups][64]
  float* alpha;          // [rows]
  float* p_unit;         // [v_groups][rows]
  float* p_bias;         // [v_groups][rows]
  RowState* part_state;  // [all_rows]
  RowState* out_state;   // [all_rows]
  float* part;           // [all_rows][v_dim] sums of a split
  float* out;            // [all_rows][v_dim] sums of all splits

  // Room for the pages of either tier; `rows` of a head, all_rows of a block.
  static Workspace Carve(Carver& c, const HostKvLayout& layout, const HostKvLayout& hot, int rows,
                         int all_rows) {
    const int k_groups = std::max({layout.k.groups, hot.k.groups, 1});
    const int v_groups = std::max({layout.v.groups, hot.v.groups, 1});
    Workspace w;
    w.k_tile = c.take<uint8_t>(kPageTokens * layout.k.dim);
    w.v_tile = c.take<uint8_t>(kPageTokens * layout.v.dim);
    w.k_scale = c.take<float>(kPageTokens * k_groups);
    w.k_bias = c.take<float>(kPageTokens * k_groups);
    w.v_scale = c.take<float>(kPageTokens * v_groups);
    w.v_bias = c.take<float>(kPageTokens * v_groups);
    w.score = c.take<float>(kPageTokens * rows);
    w.p = c.take<uint8_t>(kPageTokens * v_groups * rows);
    w.alpha = c.take<float>(rows);
    w.p_unit = c.take<float>(rows * v_groups);
    w.p_bias = c.take<float>(rows * v_groups);
    w.part_state = c.take<RowState>(all_rows);
    w.out_state = c.take<RowState>(all_rows);
    w.part = c.take<float>(static_cast<size_t>(all_rows) * layout.v.dim);
    w.out = c.take<float>(static_cast<size_t>(all_rows) * layout.v.dim);
    return w;
  }
};

// Where pages of the layer lie: the cold ones, or the hot ones.
struct Tier {
  Tier(const HostKvLayout& layout, const std::byte* storage, int64_t page_stride,
       const KvSegment* segments)
      : k(layout.k),
        v(layout.v),
        head_bytes(layout.head_bytes),
        k_map(MakeByteMap(layout.k)),
        v_map(MakeByteMap(layout.v)),
        storage(storage),
        page_stride(page_stride),
        segments(segments) {}

  const std::byte* head(int32_t physical, int kv_head) const {
    return storage + physical * page_stride + kv_head * head_bytes;
  }
  Ahead ahead(int32_t physical, int kv_head) const {
    const auto steps = [](const HostKvPlane& plane) {
      return plane.dim / (plane.groups == 0 ? 1 : 4);
    };
    return {head(physical, kv_head), head_bytes, steps(k) + steps(v)};
  }
  // The physical page of a logical one that must be there.
  int32_t find(int64_t segment, int32_t logical) const {
    const KvSegment& s = segments[segment];
    const PageRef* end = s.pages + s.n_pages;
    const PageRef* page = std::find_if(
        s.pages, end, [logical](const PageRef& page) { return page.logical == logical; });
    RK_CHECK(page != end, "page {} is not among the hot ones", logical);
    return page->physical;
  }

  HostKvPlane k;
  HostKvPlane v;
  size_t head_bytes;
  ByteMap k_map;
  ByteMap v_map;
  const std::byte* storage;
  int64_t page_stride;
  const KvSegment* segments;
};

// Queries in the space of K's pages, in the order of the blocks' rows: int8 with a unit and sums
// for codes, floats for halves. Tiers have K's groups in common.
struct Queries {
  int8_t* bytes = nullptr;  // [rows * heads, k_dim]
  float* floats = nullptr;  // [rows * heads, k_dim]
  float* unit = nullptr;    // [rows * heads] of the bytes, times the softmax scale
  int32_t* sums = nullptr;  // [rows * heads, k_groups]
  int groups = 0;           // of the bytes; 0: none
  bool any_floats = false;

  static Queries Carve(Carver& c, const HostKvLayout& layout, const HostKvLayout& hot,
                       int64_t rows) {
    Queries q;
    q.groups = std::max(layout.k.groups, hot.k.groups);
    q.any_floats = layout.k.groups == 0 || hot.k.groups == 0;
    q.bytes = c.take<int8_t>(q.groups > 0 ? rows * layout.k.dim : 0);
    q.floats = c.take<float>(q.any_floats ? rows * layout.k.dim : 0);
    q.unit = c.take<float>(q.groups > 0 ? rows : 0);
    q.sums = c.take<int32_t>(rows * q.groups);
    return q;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
#endif
