// What the process may know about the machine it runs on.
#pragma once

#include <cstddef>
#include <string>

namespace ringkeep::cli {

// Physical cores that the process may run on (affinity, and the CPU quota of its control group).
int default_threads();

std::string cpu_name();           // "Intel(R) Xeon(R) Processor", or the architecture
size_t last_level_cache_bytes();  // 0: unknown
size_t peak_memory_bytes();       // most resident memory of this process so far

}  // namespace ringkeep::cli
