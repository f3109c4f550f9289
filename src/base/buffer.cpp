#include "base/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace ringkeep {

namespace {

constexpr size_t kHugePage = 2 << 20;

void* map(size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
}

// Begins with a huge page, so that no other than the last is used in part; null where the address
// space has no room for that.
std::byte* map_huge(size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t used = (bytes + page - 1) / page * page;
  void* memory = map(used + kHugePage);
  if (memory == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(memory);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(begin, before);
  if (before < kHugePage) ::munmap(begin + before + used, kHugePage - before);
  ::madvise(begin + before, used, MADV_HUGEPAGE);
  return begin + before;
}

}  // namespace

Result<Buffer> Buffer::allocate(size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  std::byte* huge = bytes >= 2 * kHugePage && bytes < SIZE_MAX / 2 ? map_huge(bytes) : nullptr;
  void* memory = huge != nullptr ? huge : map(bytes);
  if (memory == MAP_FAILED)
    return make_error(ErrorKind::runtime, "cannot allocate {} bytes: {}", bytes,
                      std::strerror(errno));
  buffer.data_ = static_cast<std::byte*>(memory);
  buffer.size_ = bytes;
  return buffer;
}

Buffer::~Buffer() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void discard_pages(std::byte* data, size_t bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = (address + page - 1) / page * page;
  const uintptr_t end = (address + bytes) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace ringkeep
