// CODEC strings of the command line: f16, 8 6 5 4 3 2, KaVb, 5.5 4.5 3.5 2.5, affineB:G, or by
// layer kind full=CODEC+sliding=CODEC (sliding covers chunked layers too). A half may carry its own
// group: 8:64 is hadamard with a scale every 64 channels, and K8:64V4 names one half only.
#pragma once

#include "base/result.h"
#include "config/cache_flags.h"
#include "config/model_config.h"
#include "kernels/api/kv_types.h"

namespace ringkeep::kv {

struct CodecPair {
  kernels::KvCodec k;
  kernels::KvCodec v;
  // No group was asked for: an affine half may take a smaller one where 64 does not divide the
  // head.
  bool default_group = true;
  bool quantized() const {
    return k.scheme != kernels::KvScheme::f16 || v.scheme != kernels::KvScheme::f16;
  }
};

// The codec of a layer kind under the flags. Errors (usage) name the flag, what was found and the
// values that work. `flag`: the one that `kv_bits` came from.
Result<CodecPair> codec_for(const CacheFlags& flags, LayerKind kind,
                            const char* flag = "--kv-bits");

// "f16", "8", "K6V4", "affine4:64": the canonical CODEC; codec_for reads it back to the same pair.
std::string codec_name(const CodecPair& pair);

}  // namespace ringkeep::kv
