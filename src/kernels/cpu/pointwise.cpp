// Vector versions of the ops on single values, in tasks of some thousand: a row of logits is long.
#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/pointwise.cpp"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/register.h"
#include "kernels/cpu/simd.h"
// After simd.h: it follows the target.
#include "kernels/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kTaskValues = 16384;
static_assert(kTaskValues % kLanes == 0);

// y = body(y), the rest of a task through a padded vector: the same arithmetic.
template <typename Body>
void for_values(Exec& exec, float* y, int64_t n, const Body& body) {
  const F32 d;
  exec.pool().parallel_for((n + kTaskValues - 1) / kTaskValues, [&](int64_t task, int) {
    const int64_t end = std::min(n, (task + 1) * kTaskValues);
    int64_t i = task * kTaskValues;
    for (; i + kLanes <= end; i += kLanes) hn::StoreU(body(hn::LoadU(d, y + i)), d, y + i);
    HWY_ALIGN float rest[kLanes] = {};
    std::copy(y + i, y + end, rest);
    hn::Store(body(hn::Load(d, rest)), d, rest);
    std::copy_n(rest, end - i, y + i);
  });
}

void softcap(const SoftcapParams& p, Exec& exec) {
  for_values(exec, p.x, p.n, [&](auto x) HWY_ATTR { return SoftCap(F32(), x, p.cap); });
}
#else
void softcap(const SoftcapParams&, Exec&) {}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringkeep::kernels::cpu {

HWY_EXPORT(softcap);

void add_pointwise_kernels(Ops& ops) {
  ops.softcap.push_back({"simd", fixed_vectors, RK_RUN(softcap)});
}

}  // namespace ringkeep::kernels::cpu
#endif
