#include "cli/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>

namespace ringkeep::cli {
namespace {

// The value of a "key : value" line of a file, or "".
std::string field(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

// CPUs' worth of time that control group v2 grants, or a large number.
double cpu_quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (file >> quota >> period && quota != "max" && period > 0) return std::stod(quota) / period;
  return 1e9;
}

}  // namespace

int default_threads() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  int cores = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    // Hardware threads of one core share a list of siblings.
    std::set<std::string> distinct;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed)) continue;
      std::ifstream file(
          fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
      std::string siblings;
      if (!std::getline(file, siblings)) siblings = std::to_string(cpu);
      distinct.insert(siblings);
    }
    cores = std::max(1, static_cast<int>(distinct.size()));
  }
  return std::max(1, static_cast<int>(std::min<double>(cores, std::ceil(cpu_quota()))));
}

std::string cpu_name() {
  std::string name = field("/proc/cpuinfo", "model name");
  utsname system{};
  if (name.empty() && ::uname(&system) == 0) name = system.machine;
  return name;
}

size_t last_level_cache_bytes() {
  long bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (bytes <= 0) bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return static_cast<size_t>(std::max(0L, bytes));
}

size_t peak_memory_bytes() {
  // Of this program alone: what getrusage() tells includes the parent process before the exec.
  std::istringstream text(field("/proc/self/status", "VmHWM"));
  size_t kib = 0;
  if (text >> kib) return kib * 1024;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace ringkeep::cli
