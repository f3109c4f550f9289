// Host memory for many buffers of some size: they lie side by side in slabs, so that huge pages
// hold them whole. A stream over small pages waits for their translation (in a virtual machine,
// twice).
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace ringkeep {

class SlabMemory {
 public:
  // Zero-filled, aligned to a page. Fails when address space is refused. Any thread.
  Result<std::byte*> allocate(size_t bytes);
  // Gives the memory of an allocation of `bytes` bytes back to the system. Any thread.
  void free(std::byte* data, size_t bytes);

 private:
  struct Slab {
    Buffer memory;
    size_t used = 0;  // bytes handed out, from the front; a byte is handed out once
    size_t live = 0;  // allocations
    bool holds(const std::byte* p) const {
      return p >= memory.data() && p < memory.data() + memory.size();
    }
  };
  std::mutex mutex_;
  std::vector<Slab> slabs_;  // the first with room is filled
};

}  // namespace ringkeep
