#include "base/slab_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

namespace ringkeep {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = 2 << 20;
constexpr size_t kSlabBytes = 64 << 20;
// Smaller ones are no streams; larger ones consist of huge pages but for their ends.
constexpr size_t kLeast = 64 << 10, kMost = kSlabBytes / 2;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Bytes [from, to) of a slab become used. Its end stays in small pages, so that it takes what it
// holds and no more; a page that it has outgrown becomes a huge one (where the kernel, from 6.1 on,
// does that on demand).
void use_huge_pages(std::byte* slab, size_t from, size_t to) {
#ifdef MADV_COLLAPSE
  constexpr int kCollapse = MADV_COLLAPSE;
#else
  constexpr int kCollapse = 25;
#endif
  const auto base = reinterpret_cast<uintptr_t>(slab);
  const uintptr_t begin = (base + from) / kHugePage * kHugePage;
  const uintptr_t end = (base + to) / kHugePage * kHugePage;
  if (begin >= end) return;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  if (begin < base + from) ::madvise(reinterpret_cast<void*>(begin), kHugePage, kCollapse);
}

}  // namespace

Result<std::byte*> SlabMemory::allocate(size_t bytes) {
  if (bytes >= kLeast && bytes <= kMost) {
    const size_t needed = round_up(bytes, kPage);
    const std::lock_guard lock(mutex_);
    const auto has_room = [&](const Slab& s) { return s.memory.size() - s.used >= needed; };
    auto slab = std::find_if(slabs_.begin(), slabs_.end(), has_room);
    if (slab == slabs_.end()) {
      // With less address space than that the buffer is mapped alone, below.
      if (Result<Buffer> memory = Buffer::allocate(kSlabBytes + kHugePage)) {
        const auto start = reinterpret_cast<uintptr_t>(memory->data());
        ::madvise(memory->data(), memory->size(), MADV_NOHUGEPAGE);
        slabs_.push_back({std::move(*memory), round_up(start, kHugePage) - start, 0});
        slab = slabs_.end() - 1;
      }
    }
    if (slab != slabs_.end()) {
      std::byte* data = slab->memory.data() + slab->used;
      use_huge_pages(slab->memory.data(), slab->used, slab->used + needed);
      slab->used += needed;
      ++slab->live;
      return data;
    }
  }
  return RK_TRY(Buffer::allocate(bytes)).release();
}

void SlabMemory::free(std::byte* data, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto slab =
      std::find_if(slabs_.begin(), slabs_.end(), [&](const Slab& s) { return s.holds(data); });
  if (slab == slabs_.end()) {
    ::munmap(data, bytes);
  } else if (--slab->live == 0) {
    slabs_.erase(slab);
  } else {
    discard_pages(data, round_up(bytes, kPage));
  }
}

}  // namespace ringkeep
