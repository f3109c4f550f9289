// Memory that is kept back for the destructors that run while std::bad_alloc is on its way: those
// of nlohmann-json ask for some, and a destructor that throws ends the process.
#pragma once

#include <cstddef>

namespace ringkeep {

// Sets the process's new-handler and the size of the reserve. What is not used is address space
// alone. Call it once, before other threads allocate.
void keep_memory_reserve(size_t bytes);

// Gets the reserve back once what failed has let go of its memory. False: there is still none for
// it.
bool refill_memory_reserve() noexcept;

}  // namespace ringkeep
