// Aligned, zero-filled host memory. Lazy: pages cost nothing until they are touched.
#pragma once

#include <cstddef>
#include <utility>

#include "base/result.h"

namespace ringkeep {

class Buffer {
 public:
  Buffer() = default;
  // Anonymous zero pages, aligned to 64 bytes at least. Fails when address space is refused.
  static Result<Buffer> allocate(size_t bytes);

  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }
  // Gives the memory to the caller, who must munmap it (size() bytes).
  std::byte* release() { return std::exchange(data_, nullptr); }

 private:
  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Gives the physical memory of whole pages inside [data, data + bytes) back; they read as zero
// afterwards. `data` must come from Buffer::allocate.
void discard_pages(std::byte* data, size_t bytes);

}  // namespace ringkeep
