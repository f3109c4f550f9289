// The kernel tests on a chosen SIMD target: --simd=AVX2 makes dispatch pick that target instead of
// the best one of the machine.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "kernels/cpu/targets.h"
// After targets.h, as the kernels: it counts what they are built for.
#include "hwy/targets.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc < 2) return RUN_ALL_TESTS();
  if (argc > 2 || std::strncmp(argv[1], "--simd=", 7) != 0) {
    std::fprintf(stderr, "usage: kernels_tests [--simd=TARGET] [--gtest_...]\n");
    return 2;
  }
  for (const int64_t target : hwy::SupportedAndGeneratedTargets())
    if (std::strcmp(hwy::TargetName(target), argv[1] + 7) == 0) {
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(target);
      return RUN_ALL_TESTS();
    }
  std::printf("this machine has no %s: nothing to test\n", argv[1] + 7);
  return 0;
}
