#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "base/buffer.h"
#include "base/dtype.h"
#include "base/mapped_file.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace ringkeep {
namespace {

// Every half is a float exactly, and comes back; between two halves the nearer one wins, ties to
// even.
TEST(DType, HalfRoundTripsEveryValueAndRoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = f16_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(value))));
      continue;
    }
    EXPECT_EQ(float_to_f16(value), half);
    const uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7bffu) continue;
    const float next = f16_to_float(static_cast<uint16_t>(half + 1));
    const float middle = (value + next) / 2;  // exact in float
    EXPECT_EQ(float_to_f16(middle), (bits & 1u) ? half + 1 : half);
    EXPECT_EQ(float_to_f16(std::nextafter(middle, next)), half + 1);
    EXPECT_EQ(float_to_f16(std::nextafter(middle, value)), half);
  }
  EXPECT_EQ(float_to_f16(65519.0f), 0x7bffu);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7c00u);
  EXPECT_EQ(float_to_f16(-1e30f), 0xfc00u);
  EXPECT_EQ(float_to_f16(1e-30f), 0u);
}

TEST(DType, BrainFloatRoundsToNearestEven) {
  EXPECT_EQ(float_to_bf16(1.0f), 0x3f80u);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80u);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82u);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81u);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(NAN))));
}

TEST(ThreadPool, RunsEveryTaskOnceOverManyJobs) {
  ThreadPool pool(4);
  for (int job = 0; job < 2000; ++job) {
    const int tasks = job % 37;
    std::vector<std::atomic<int>> seen(static_cast<size_t>(tasks));
    pool.parallel_for(tasks, [&](int64_t task, int thread) {
      ASSERT_GE(thread, 0);
      ASSERT_LT(thread, 4);
      seen[static_cast<size_t>(task)].fetch_add(1);
    });
    for (const auto& count : seen) ASSERT_EQ(count.load(), 1);
  }
}

TEST(ThreadPool, AThreadIsHelpedWithItsRange) {
  ThreadPool pool(2);
  for (int job = 0; job < 100; ++job) {
    std::atomic<int> done{0};
    pool.parallel_for(8, [&](int64_t task, int) {
      if (task == 0)  // the other seven, of which three are the same thread's
        while (done.load() < 7) std::this_thread::yield();
      done.fetch_add(1);
    });
    ASSERT_EQ(done.load(), 8);
  }
}

TEST(Buffer, IsZeroAndAlignedAndReadsZeroAfterDiscard) {
  auto buffer = Buffer::allocate(3 << 20).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
  auto* bytes = buffer.as<unsigned char>();
  for (size_t i = 0; i < buffer.size(); i += 4096) {
    ASSERT_EQ(bytes[i], 0);
    bytes[i] = 1;
  }
  discard_pages(buffer.data(), buffer.size());
  for (size_t i = 0; i < buffer.size(); i += 4096) ASSERT_EQ(bytes[i], 0);
}

TEST(MappedFile, NamesWhatCannotBeOpened) {
  const auto missing = MappedFile::open("/no/such/file.gguf");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::input);
  EXPECT_NE(missing.error().message.find("/no/such/file.gguf"), std::string::npos);
  const auto folder = MappedFile::open("/");
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.error().message.find("regular file"), std::string::npos);
}

Result<int> half_of(int n) {
  if (n % 2 != 0) return make_error(ErrorKind::usage, "{} is odd", n);
  return n / 2;
}
Result<int> quarter_of(int n) {
  const int half = RK_TRY(half_of(n));
  return RK_TRY(half_of(half));
}

TEST(Result, TryPassesValuesAndErrorsOn) {
  EXPECT_EQ(quarter_of(12).value(), 3);
  EXPECT_EQ(quarter_of(6).error().message, "3 is odd");
  EXPECT_EQ(exit_code(quarter_of(6).error().kind), 2);
}

}  // namespace
}  // namespace ringkeep
