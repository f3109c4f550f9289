#include "cli/bandwidth.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/memory.h"
#include "cli/machine.h"

namespace ringkeep::cli {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;
constexpr size_t kLeastBytes = size_t{256} << 20;
constexpr size_t kMostBytes = size_t{2} << 30;

// Sums one block in eight independent lanes, so that the loads and not the additions set the pace.
// `kAhead`: a line is asked for from far ahead, without which some CPUs have too few requests under
// way; on others that is slower.
template <bool kAhead>
uint64_t sum_block(const uint64_t* words) {
  constexpr size_t kFar = 8192 / sizeof(uint64_t);
  uint64_t lanes[8] = {};
  for (size_t i = 0; i < kBlockBytes / sizeof(uint64_t); i += 8) {
    if constexpr (kAhead) __builtin_prefetch(words + i + kFar, 0, 2);
    for (size_t lane = 0; lane < 8; ++lane) lanes[lane] += words[i + lane];
  }
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum += lane;
  return sum;
}

}  // namespace

Result<BandwidthMeter> BandwidthMeter::create(ThreadPool& pool) {
  size_t bytes = std::clamp(4 * last_level_cache_bytes(), kLeastBytes, kMostBytes);
  if (const auto memory = available_memory()) bytes = std::min(bytes, *memory / 4);
  bytes = std::max(bytes / kBlockBytes, size_t{1}) * kBlockBytes;
  Buffer buffer = RK_TRY(Buffer::allocate(bytes));
  // Untouched pages share one zero page: write every one.
  pool.parallel_for(static_cast<int64_t>(bytes / kBlockBytes), [&](int64_t block, int) {
    std::memset(buffer.data() + static_cast<size_t>(block) * kBlockBytes,
                static_cast<int>(block % 251) + 1, kBlockBytes);
  });
  return BandwidthMeter(pool, std::move(buffer));
}

void BandwidthMeter::measure() {
  measure(sum_block<false>);
  measure(sum_block<true>);
}

void BandwidthMeter::measure(uint64_t (*sum_of)(const uint64_t* words)) {
  const auto blocks = static_cast<int64_t>(buffer_.size() / kBlockBytes);
  std::vector<uint64_t> sums(static_cast<size_t>(blocks));
  const auto start = std::chrono::steady_clock::now();
  pool_->parallel_for(blocks, [&](int64_t block, int) {
    sums[static_cast<size_t>(block)] =
        sum_of(buffer_.as<const uint64_t>() +
               static_cast<size_t>(block) * (kBlockBytes / sizeof(uint64_t)));
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  for (const uint64_t sum : sums) sum_ += sum;
  best_gb_s_ = std::max(best_gb_s_, static_cast<double>(buffer_.size()) / seconds.count() / 1e9);
}

}  // namespace ringkeep::cli
