// What SIMD target dispatch chooses; also the smallest example of a kernel file.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/target.cpp"
#include "kernels/cpu/target.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/register.h"
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {

const char* name() { return hwy::TargetName(HWY_TARGET); }
bool vectors() { return HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE; }

}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringkeep::kernels::cpu {

HWY_EXPORT(name);
HWY_EXPORT(vectors);
const char* target_name() { return HWY_DYNAMIC_DISPATCH(name)(); }

bool stream_prefetch_pays() {
#if defined(__x86_64__)
  static const bool amd = [] {
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") != 0;
  }();
  return !amd;
#else
  return true;
#endif
}

bool vectors_available() { return HWY_DYNAMIC_DISPATCH(vectors)(); }

}  // namespace ringkeep::kernels::cpu
#endif
