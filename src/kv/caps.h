// One table of what each cache class can do, per feature. The plan asks it; nothing else decides.
#pragma once

#include <cstdint>
#include <string>

#include "config/model_config.h"

namespace ringkeep::kv {

enum class CacheClass : uint8_t {
  full,       // FullCache: every token
  bounded,    // BoundedCache: keep pinned first tokens and a ring (--max-kv-size on a full layer)
  ring,       // RingCache: a sliding layer's window
  chunked,    // ChunkedCache
  shared,     // SharedCache: another layer's, none of its own
  recurrent,  // RecurrentState: not supported yet
  latent,     // LatentCache: not supported yet
  none,       // nothing is cached; such layers are not supported yet
};
const char* cache_class_name(CacheClass cache);  // "full", "ring+keep", ...

// share: another layer reads it; reuse: snapshots, shared prefixes.
enum class Feature : uint8_t { run, quantize, batch, rollback, share, reuse, save, images };
const char* feature_name(Feature feature);

// Empty when `cache` supports `feature`, else the reason.
std::string unsupported_reason(CacheClass cache, Feature feature);

}  // namespace ringkeep::kv
