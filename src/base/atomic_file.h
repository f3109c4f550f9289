// A file that appears under its name whole or not at all. Until then it has no name where the file
// system allows that (Linux, O_TMPFILE), so that even a killed process leaves nothing behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace ringkeep {

class AtomicFile {
 public:
  // Errors (runtime): the folder cannot be written, or `path` is there and is no regular file. Of a
  // symbolic link the file that it leads to is written, and the link stays.
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept { swap(other); }
  AtomicFile& operator=(AtomicFile&& other) noexcept {
    swap(other);
    return *this;
  }
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);  // at the end
  Status write_at(uint64_t offset, std::span<const std::byte> bytes);
  // Puts the file, safe on disk, in the place of what `path` was.
  Status commit();

 private:
  AtomicFile() = default;
  void swap(AtomicFile& other) {
    std::swap(fd_, other.fd_);
    std::swap(name_, other.name_);
    std::swap(path_, other.path_);
    std::swap(partial_, other.partial_);
    std::swap(size_, other.size_);
  }
  Error failure(const char* what) const;

  int fd_ = -1;
  std::string name_;     // for messages: as it was given, and where it leads
  std::string path_;     // what is written
  std::string partial_;  // its name so far, or empty
  uint64_t size_ = 0;
};

}  // namespace ringkeep
