// The memory bandwidth of the machine, to judge speed by.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace ringkeep::cli {

// Streams through a buffer larger than the last-level cache (as far as memory allows) on all
// threads of a pool.
class BandwidthMeter {
 public:
  static Result<BandwidthMeter> create(ThreadPool& pool);
  // Passes over the buffer, with and without asking ahead; remembers the fastest.
  void measure();
  double best_gb_s() const { return best_gb_s_; }  // 1e9 bytes a second

 private:
  void measure(uint64_t (*sum_of)(const uint64_t* words));
  BandwidthMeter(ThreadPool& pool, Buffer buffer) : pool_(&pool), buffer_(std::move(buffer)) {}
  ThreadPool* pool_;
  Buffer buffer_;
  double best_gb_s_ = 0.0;
  uint64_t sum_ = 0;  // keeps the reads alive
};

}  // namespace ringkeep::cli
