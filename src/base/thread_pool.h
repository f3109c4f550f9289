// A small fork-join pool. The caller takes part in the work; workers spin briefly between jobs
// (decode issues a job every few tens of microseconds) and then sleep. A worker that the system has
// put aside does not hold a job up: the caller waits only for workers that have taken a task.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ringkeep {

class ThreadPool {
 public:
  // threads >= 1, the caller included. Fewer when the system refuses to start as many.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(task, thread) once for each task in [0, tasks), in any order, on threads
  // 0 .. threads()-1, and returns when all are done. Each thread goes through a range of its own,
  // so that what lies behind each other in memory is one stream, and then takes from the ends of
  // the others'. Not reentrant; one caller at a time. tasks < 2^32.
  template <typename Body>
  void parallel_for(int64_t tasks, const Body& body) {
    if (tasks <= 0) return;
    if (tasks == 1 || workers_.empty()) {
      for (int64_t i = 0; i < tasks; ++i) body(i, 0);
      return;
    }
    run(
        tasks,
        [](const void* context, int64_t task, int thread) {
          (*static_cast<const Body*>(context))(task, thread);
        },
        &body);
  }

 private:
  using Function = void (*)(const void* context, int64_t task, int thread);
  void run(int64_t tasks, Function function, const void* context);
  void work(int thread);
  void drain(int thread);

  // Tasks of a thread that nobody has taken: the first one, and in the upper half the end.
  struct alignas(64) Range {
    std::atomic<uint64_t> span{0};
  };
  // A task of the range; -1: none is left.
  static int64_t take_first(Range& range);
  static int64_t take_last(Range& range);

  // A job is open for workers while kOpen is set; each worker inside adds kInside. Upper half: the
  // job's number, so that a worker joins a job once.
  static constexpr uint64_t kOpen = 1;
  static constexpr uint64_t kInside = 2;
  static constexpr uint64_t kJob = uint64_t{1} << 32;

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint64_t> state_{0};
  std::atomic<int> sleeping_{0};
  std::atomic<bool> stop_{false};
  std::unique_ptr<Range[]> ranges_;  // [threads]
  Function function_ = nullptr;
  const void* context_ = nullptr;
};

}  // namespace ringkeep
