#include "base/memory.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

namespace ringkeep {
namespace {

// The number behind `key` and white space, in a file of such lines.
std::optional<uint64_t> field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  uint64_t value = 0;
  while (file >> word)
    if (word == key && file >> value) return value;
  return std::nullopt;
}

// The number that is all of a file; nothing for "max".
std::optional<uint64_t> number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

// What is left to a control group (version 2). Pages of files that nobody maps give way.
std::optional<uint64_t> left_in(const std::string& group) {
  const auto limit = number(group + "/memory.max");
  const auto used = number(group + "/memory.current");
  if (!limit || !used) return std::nullopt;
  const uint64_t files = field(group + "/memory.stat", "inactive_file").value_or(0);
  const uint64_t held = *used - std::min(*used, files);
  return *limit - std::min(*limit, held);
}

// The path of the process's control group, "" for the root.
std::string own_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::")) return line.substr(3) == "/" ? "" : line.substr(3);
  return "";
}

// Address space that threads and the C library's heaps take without using it: 64 MiB a heap.
constexpr uint64_t kReserved = uint64_t{256} << 20;

std::optional<uint64_t> left_of_address_space() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const auto pages = number("/proc/self/statm");  // its first number
  if (!pages) return std::nullopt;
  const uint64_t used = *pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) + kReserved;
  return limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, used);
}

}  // namespace

std::optional<size_t> available_memory() {
  std::optional<size_t> least;
  const auto at_most = [&](std::optional<uint64_t> bytes) {
    if (bytes) least = std::min<size_t>(least.value_or(*bytes), *bytes);
  };
  if (const auto kib = field("/proc/meminfo", "MemAvailable:")) at_most(*kib * 1024);
  for (std::string group = own_group();; group.erase(group.rfind('/'))) {
    at_most(left_in("/sys/fs/cgroup" + group));
    if (group.find('/') == std::string::npos) break;
  }
  at_most(left_of_address_space());
  return least;
}

void return_freed_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace ringkeep
