#include "base/memory_reserve.h"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>

namespace ringkeep {
namespace {

std::atomic<size_t> reserve_bytes{0};
std::atomic<void*> reserve{nullptr};

// operator new calls it where memory ran out, and tries again when it returns. An exception is on
// its way, or caught by a library that takes things apart before it throws it on.
void give_up_or_use_reserve() {
  if (std::uncaught_exceptions() > 0 || std::current_exception() != nullptr)
    if (void* kept = reserve.exchange(nullptr)) return std::free(kept);
  throw std::bad_alloc();
}

}  // namespace

void keep_memory_reserve(size_t bytes) {
  reserve_bytes = bytes;
  refill_memory_reserve();
  std::set_new_handler(give_up_or_use_reserve);
}

bool refill_memory_reserve() noexcept {
  if (reserve_bytes == 0 || reserve != nullptr) return true;
  void* fresh = std::malloc(reserve_bytes);
  void* none = nullptr;
  if (!reserve.compare_exchange_strong(none, fresh)) std::free(fresh);
  return reserve != nullptr;
}

}  // namespace ringkeep
