#include "base/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

namespace ringkeep {
namespace {

constexpr size_t kRoom = 1 << 30;

TEST(Memory, IsWithinTheMachine) {
  const auto pages = static_cast<size_t>(::sysconf(_SC_PHYS_PAGES));
  EXPECT_GT(available_memory().value(), kRoom);
  EXPECT_LE(available_memory().value(), pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)));
}

// In a process of its own: the limit stays.
TEST(Memory, HeedsALimitOfTheAddressSpace) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;  // of the address space
    const rlimit limit{.rlim_cur = pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + kRoom,
                       .rlim_max = RLIM_INFINITY};
    if (pages == 0 || ::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
    const size_t left = available_memory().value();
    ::_exit(left > kRoom / 2 && left < kRoom ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace ringkeep
