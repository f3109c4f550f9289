// What is known of the machine beyond its vectors.
#pragma once

namespace ringkeep::kernels::cpu {

// Whether what is read from front to back (weights, pages of a cache) comes sooner when it is asked
// for ahead of its use. AMD's own prefetchers are faster than that (Zen 4: by a tenth, and more
// beside others' load).
bool stream_prefetch_pays();

}  // namespace ringkeep::kernels::cpu
