// Prompt caches that mlx-lm wrote (mlx_lm.cache_prompt, save_prompt_cache): a safetensors file with
// the state of each layer's cache object. They hold no token ids.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/cache_rows.h"
#include "quant/source_tensor.h"

namespace ringkeep::engine {

// One layer's cache. Arrays point into the file's bytes: KVCache and RotatingKVCache have keys and
// values [1, kv_heads, rows, dim]; QuantizedKVCache has codes, scales and biases of each, the codes
// [1, kv_heads, rows, dim * bits / 32] in 32-bit words.
struct MlxLayer {
  std::string cache_class;
  kernels::KvGeometry geometry;    // f16, or affine with MLX's bits and group
  int64_t rows = 0;                // of the arrays
  std::vector<int64_t> token_of;   // [rows] token index of a physical row, or -1: unused
  quant::SourceTensor k[3], v[3];  // values, or codes, scales, biases
  std::string type_name;           // of the values or scales: F16, BF16, F32
};

struct MlxCache {
  int64_t length = 0;  // tokens that were run
  std::vector<MlxLayer> layers;
};

bool is_mlx_cache(const std::map<std::string, std::string>& metadata);
// Whether the bytes are a container with such metadata. Errors (input): no container at all.
Result<bool> holds_mlx_cache(std::span<const std::byte> bytes, const std::string& name);
// "KV stored as BF16, rounded to half precision", or empty.
std::string describe_rounding(const MlxCache& cache);

// Errors (input) begin with `name`: no such file, a class that is not known here, arrays that do
// not belong together.
Result<MlxCache> parse_mlx_cache(std::span<const std::byte> bytes, const std::string& name);

// Whether mlx-lm turns the keys of this model as this program does, for contexts up to `length`.
// Errors (refused) begin with `name`.
Status check_mlx_keys(const ModelConfig& config, int64_t length, const std::string& name);

// A sequence with the rows of the file. Errors (refused) begin with `name` and say what differs.
Result<kv::SequenceId> restore_mlx_cache(CacheAccess access, const MlxCache& cache,
                                         const std::string& name);

}  // namespace ringkeep::engine
