#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace ringkeep {
namespace {

namespace fs = std::filesystem;

// Where links lead, also to what is not there yet.
Result<fs::path> follow_links(const fs::path& path) {
  constexpr int kMostLinks = 40;
  fs::path at = path;
  std::error_code error;
  for (int i = 0; fs::is_symlink(fs::symlink_status(at, error)); ++i) {
    const fs::path target = fs::read_symlink(at, error);
    if (i == kMostLinks || error)
      return make_error(ErrorKind::runtime,
                        "{}: expected a link that leads to a file, found one that leads nowhere",
                        path.string());
    at = at.parent_path() / target;  // an absolute target replaces the folder
  }
  return at;
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

Error AtomicFile::failure(const char* what) const {
  return make_error(ErrorKind::runtime, "{}: cannot {}: {}", name_, what, std::strerror(errno));
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  AtomicFile file;
  file.path_ = RK_TRY(follow_links(path)).string();
  file.name_ = file.path_ == path ? path : fmt::format("{} (a link to {})", path, file.path_);
  struct stat info {};
  const bool replaces = ::stat(file.path_.c_str(), &info) == 0;
  if (replaces && !S_ISREG(info.st_mode))
    return make_error(ErrorKind::runtime, "{}: expected a regular file or none, found {}",
                      file.name_, kind_of(info.st_mode));
  fs::path folder = fs::path(file.path_).parent_path();
  if (folder.empty()) folder = ".";
  const mode_t mode = 0666;  // less the umask
  file.fd_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  if (file.fd_ < 0) {
    file.partial_ = fmt::format("{}.{}.partial", file.path_, ::getpid());
    file.fd_ = ::open(file.partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  }
  if (file.fd_ < 0) {
    file.partial_.clear();
    return file.failure(fmt::format("write a file in the folder {}", folder.string()).c_str());
  }
  // Who may not read what is there may not read what comes after it.
  if (replaces && ::fchmod(file.fd_, info.st_mode & 07777) != 0)
    return file.failure("take over the access rights of the file");
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
      return failure("give the finished file a name in its folder");
    partial_ = name;
  }
  if (::rename(partial_.c_str(), path_.c_str()) != 0)
    return failure("put the finished file in its place");
  partial_.clear();
  return {};
}

}  // namespace ringkeep
