// CODEC strings of the command line: f16, 8 6 5 4 3 2, KaVb, 5.5 4.5 3.5 2.5, affineB:G, or by layer
// kind full=CODEC+sliding=CODEC.
#pragma once

#include "base/result.h"
#include "config/cache_flags.h"
#include "config/model_config.h"
#include "kernels/api/kv_types.h"

namespace ringkeep::kv {

struct CodecPair {
  kernels::KvCodec k;
  kernels::KvCodec v;
};

// The codec of a layer kind under the flags. Errors (usage) name the flag, what was found and the
// values that work.
Result<CodecPair> codec_for(const CacheFlags& flags, LayerKind kind);

// "f16", "8", "K6V4", "affine4:64": the canonical CODEC.
std::string codec_name(const CodecPair& pair);

}  // namespace ringkeep::kv
