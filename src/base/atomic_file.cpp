#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace ringkeep {

Error AtomicFile::failure(const char* what) const {
  return make_error(ErrorKind::runtime, "{}: cannot {}: {}", path_, what, std::strerror(errno));
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  AtomicFile file;
  file.path_ = path;
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return make_error(ErrorKind::runtime, "{}: expected a regular file or none", path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const mode_t mode = 0666;  // less the umask
  file.fd_ = ::open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  if (file.fd_ < 0) {
    file.partial_ = fmt::format("{}.{}.partial", path, ::getpid());
    file.fd_ = ::open(file.partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  }
  if (file.fd_ < 0) {
    file.partial_.clear();
    return file.failure("write");
  }
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  RK_TRY(write_at(size_, bytes));
  size_ += bytes.size();
  return {};
}

Status AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failure("write");
    offset += static_cast<uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status AtomicFile::commit() {
  if (::fdatasync(fd_) != 0) return failure("write");
  if (partial_.empty()) {
    const std::string name = fmt::format("{}.{}.partial", path_, ::getpid());
    ::unlink(name.c_str());  // of an earlier process of that number
    const std::string link = fmt::format("/proc/self/fd/{}", fd_);
    if (::linkat(AT_FDCWD, link.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return failure("name");
    partial_ = name;
  }
  if (::rename(partial_.c_str(), path_.c_str()) != 0) return failure("rename");
  partial_.clear();
  return {};
}

}  // namespace ringkeep
