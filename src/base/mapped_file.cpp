#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ringkeep {

namespace {

struct Descriptor {
  explicit Descriptor(int fd) : fd(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  int fd;
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // Non-blocking: opening a pipe would otherwise wait for its writer.
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const int fd = descriptor.fd;
  if (fd < 0) return input_error("{}: cannot open: {}", path, std::strerror(errno));
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
    return input_error("{}: expected a regular file{}", path,
                       S_ISDIR(info.st_mode) ? ", found a folder" : "");
  MappedFile file;
  file.path_ = path;
  file.size_ = static_cast<size_t>(info.st_size);
  if (file.size_ > 0) {
    void* memory = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (memory == MAP_FAILED)
      return input_error("{}: cannot map {} bytes: {}", path, file.size_, std::strerror(errno));
    file.data_ = static_cast<const std::byte*>(memory);
  }
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::drop(size_t offset, size_t bytes) const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = (offset + bytes) / page * page;
  if (begin < end && end <= (size_ + page - 1) / page * page)
    ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

void MappedFile::want(size_t offset, size_t bytes) const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = offset / page * page;
  const size_t end = std::min(offset + bytes, size_);
  if (begin < end) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_WILLNEED);
}

Result<std::string> read_all(int fd, const std::string& name, size_t limit) {
  std::string text;
  char block[1 << 16];
  for (;;) {
    const ssize_t n = ::read(fd, block, sizeof block);
    if (n == 0) return text;
    if (n < 0) {
      if (errno == EINTR) continue;
      return input_error("{}: cannot read: {}", name, std::strerror(errno));
    }
    if (static_cast<size_t>(n) > limit - text.size())
      return input_error("{}: expected at most {} bytes, found more", name, limit);
    text.append(block, static_cast<size_t>(n));
  }
}

Result<std::string> read_text_file(const std::string& path, size_t limit) {
  auto file = RK_TRY(MappedFile::open(path));
  if (file.bytes().size() > limit)
    return input_error("{}: {} bytes, expected at most {}", path, file.bytes().size(), limit);
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

Result<std::string> read_text_input(const std::string& path, size_t limit) {
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.fd < 0) return input_error("{}: cannot open: {}", path, std::strerror(errno));
  return read_all(descriptor.fd, path, limit);
}

}  // namespace ringkeep
