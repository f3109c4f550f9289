// A read-only memory-mapped file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace ringkeep {

class MappedFile {
 public:
  MappedFile() = default;
  // Errors (input): missing, not a regular file, unreadable. An empty file maps to an empty span.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept { swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    swap(other);
    return *this;
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // Tells the kernel that [offset, offset + bytes) will not be read again, so that a file that has
  // been repacked does not count towards peak memory.
  void drop(size_t offset, size_t bytes) const;
  // Tells the kernel that they will be read soon, so that it reads ahead; nobody waits for it.
  void want(size_t offset, size_t bytes) const;

 private:
  void swap(MappedFile& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(path_, other.path_);
  }
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

// Everything that an open descriptor gives, at most `limit` bytes. Errors (input) begin with
// `name`.
Result<std::string> read_all(int fd, const std::string& name, size_t limit);

// The whole of a small text file (at most `limit` bytes). Errors as MappedFile::open.
Result<std::string> read_text_file(const std::string& path, size_t limit);

// The same of what a user names, which may be a pipe or /dev/stdin and is then waited for.
Result<std::string> read_text_input(const std::string& path, size_t limit);

}  // namespace ringkeep
