#include "base/thread_pool.h"

#include <system_error>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ringkeep {
namespace {

constexpr uint64_t kEnd = uint64_t{1} << 32;  // of a range's end
constexpr int kSpins = 2000;  // some 40 us: longer than the gap between two ops of a step

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads)
    : ranges_(std::make_unique<Range[]>(static_cast<size_t>(threads))) {
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error&) {
    // The system has no more: those that run are the pool, and threads() says how many.
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    state_.fetch_add(kJob);
  }
  wake_.notify_all();
  for (auto& worker : workers_) worker.join();
}

int64_t ThreadPool::take_first(Range& range) {
  uint64_t span = range.span.load(std::memory_order_relaxed);
  while (span % kEnd < span / kEnd)
    if (range.span.compare_exchange_weak(span, span + 1, std::memory_order_relaxed))
      return static_cast<int64_t>(span % kEnd);
  return -1;
}

int64_t ThreadPool::take_last(Range& range) {
  uint64_t span = range.span.load(std::memory_order_relaxed);
  while (span % kEnd < span / kEnd)
    if (range.span.compare_exchange_weak(span, span - kEnd, std::memory_order_relaxed))
      return static_cast<int64_t>(span / kEnd) - 1;
  return -1;
}

void ThreadPool::drain(int thread) {
  for (int64_t task; (task = take_first(ranges_[thread])) >= 0;) function_(context_, task, thread);
  for (int i = 1; i < threads(); ++i)
    for (int64_t task; (task = take_last(ranges_[(thread + i) % threads()])) >= 0;)
      function_(context_, task, thread);
}

void ThreadPool::run(int64_t tasks, Function function, const void* context) {
  // No worker is inside: these are the caller's to write until the job opens.
  function_ = function;
  context_ = context;
  const uint64_t count = static_cast<uint64_t>(tasks), n = static_cast<uint64_t>(threads());
  const auto begin = [&](uint64_t thread) { return (count * thread + n - 1) / n; };
  for (uint64_t t = 0; t < n; ++t)  // the caller, who is there first, has the larger part
    ranges_[t].span.store(begin(t) + begin(t + 1) * kEnd, std::memory_order_relaxed);
  // Sequentially consistent: either the worker sees the new job before it sleeps, or this thread
  // sees it sleeping.
  state_.fetch_add(kJob | kOpen);
  if (sleeping_.load() > 0) {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  drain(0);
  // Every task is taken. Close the job, then wait for the workers that are inside.
  uint64_t state = state_.fetch_sub(kOpen) - kOpen;
  for (int spins = 0; state % kJob != 0; ++spins) {
    if (spins < kSpins) {
      relax();
    } else {
      std::this_thread::yield();
    }
    state = state_.load(std::memory_order_acquire);
  }
}

void ThreadPool::work(int thread) {
  uint64_t seen = 0;  // number of the last job that this worker joined or missed
  for (;;) {
    uint64_t state = state_.load(std::memory_order_acquire);
    for (int spins = 0; state / kJob == seen && spins < kSpins; ++spins) {
      relax();
      state = state_.load(std::memory_order_acquire);
    }
    if (state / kJob == seen) {
      std::unique_lock lock(mutex_);
      sleeping_.fetch_add(1);
      wake_.wait(lock, [&] { return state_.load() / kJob != seen; });
      sleeping_.fetch_sub(1);
      continue;
    }
    if (stop_) return;
    seen = state / kJob;
    // Join the job unless it has closed; the number stays the same while it is open.
    while ((state & kOpen) != 0 && state / kJob == seen) {
      if (state_.compare_exchange_weak(state, state + kInside)) {
        drain(thread);
        state_.fetch_sub(kInside, std::memory_order_release);
        break;
      }
    }
  }
}

}  // namespace ringkeep
