// How much memory this process may still take.
#pragma once

#include <cstddef>
#include <optional>

namespace ringkeep {

// Bytes that can be allocated and touched without pushing anything of use out of memory: the least
// of what the kernel says is available, what is left to the control groups that the process is in,
// and what is left to its address space (ulimit -v). Nothing when none of them is known.
std::optional<size_t> available_memory();

// Gives memory that was freed back to the system, where the C library keeps it for later. Worth its
// time after something large was taken apart, before something larger that does not come from
// there.
void return_freed_memory();

}  // namespace ringkeep
