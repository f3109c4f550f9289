// Appending rows to the cache. Tokens of a page share bytes, so the keys, or the values, that one
// page and KV head get are one task; hot and cold pages are cut alike.
#include <atomic>
#include <vector>

#include "kernels/api/host_kv.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/register.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kv.cpp"
#include "kernels/cpu/simd.h"
// After simd.h: it follows the target.
#include "kernels/cpu/head_transform-inl.h"
#include "kernels/cpu/kv_encode-inl.h"

#ifndef RINGKEEP_KERNELS_CPU_KV_RUN
#define RINGKEEP_KERNELS_CPU_KV_RUN
namespace ringkeep::kernels::cpu {

// Rows [first, last) of the step, all in one page.
struct KvRun {
  int64_t first;
  int64_t last;
};

// Pages that rows are encoded into.
struct KvTarget {
  HostKvLayout layout;
  std::byte* storage;
  int64_t page_stride;
  const int64_t* slots;
};

}  // namespace ringkeep::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE

bool AppendRun(const KvAppendParams&, const std::vector<KvTarget>&, const KvRun&, int64_t, bool) {
  return false;
}

#else

// Encodes keys or values of one head of the rows of a run into every target; false when one is not
// finite.
bool AppendRun(const KvAppendParams& p, const std::vector<KvTarget>& targets, const KvRun& rows,
               int64_t kv_head, bool keys) {
  const KvGeometry& g = p.geometry;
  bool fine = true;
  HWY_ALIGN float x[kMaxHeadDim];
  for (int64_t row = rows.first; row < rows.last; ++row) {
    if (keys) {
      TransformHead(p.k_transform, row, kv_head, g.k_dim,
                    p.k + row * p.k_stride + kv_head * g.k_dim, x);
      fine &= LoadSource(g.k, g.k_dim, x, x);
    } else {
      fine &= LoadSource(g.v, g.v_dim, p.v + row * p.v_stride + kv_head * g.v_dim, x);
    }
    for (const KvTarget& to : targets) {
      const int64_t slot = to.slots[row];
      std::byte* head =
          to.storage + slot / kPageTokens * to.page_stride + kv_head * to.layout.head_bytes;
      const int token = static_cast<int>(slot % kPageTokens);
      fine &= EncodeRow(keys ? to.layout.k : to.layout.v, x, head, token);
    }
  }
  return fine;
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringkeep::kernels::cpu {
namespace {

HWY_EXPORT(AppendRun);

void append(const KvAppendParams& p, Exec& exec) {
  std::vector<KvTarget> targets{{HostKvLayout(p.geometry), p.storage, p.page_stride, p.slots}};
  if (p.hot.storage != nullptr) {
    RK_CHECK(tiers_fit(p.geometry, p.hot.geometry));
    targets.push_back(
        {HostKvLayout(p.hot.geometry), p.hot.storage, p.hot.page_stride, p.hot.slots});
  }
  std::vector<KvRun> runs;
  for (int64_t s = 0; s < p.n_segments; ++s) {
    int64_t page = -1;
    for (int64_t i = 0; i < p.segments[s].rows; ++i) {
      const int64_t row = p.segments[s].row0 + i;
      const int64_t to = p.slots[row] < 0 ? -1 : p.slots[row] / kPageTokens;
      if (to < 0) page = -1;
      if (to < 0) continue;
      if (to != page) runs.push_back({row, row});
      runs.back().last = row + 1;
      page = to;
    }
  }
  const int64_t heads = p.geometry.kv_heads;
  // Storing halves takes less time than waking a thread for them.
  const int64_t parts = p.geometry.k.halves() && p.geometry.v.halves() ? 1 : 2;
  const auto append_run = HWY_DYNAMIC_DISPATCH(AppendRun);
  exec.pool().parallel_for(
      static_cast<int64_t>(runs.size()) * heads * parts, [&](int64_t task, int) {
        const KvRun& run = runs[task / (heads * parts)];
        const int64_t head = task / parts % heads;
        for (int64_t part = task % parts; part < 2; part += parts)
          if (!append_run(p, targets, run, head, /*keys=*/part == 0) && p.non_finite != nullptr)
            std::atomic_ref<int32_t>(*p.non_finite).store(1, std::memory_order_relaxed);
      });
}

}  // namespace

void add_kv_kernels(Ops& ops) { ops.kv_append.push_back({"cpu", fixed_vectors, append}); }

}  // namespace ringkeep::kernels::cpu
#endif
