// The cache flags of the command line, as the user gave them. kv/plan turns them into a KvPlan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace ringkeep {

struct CacheFlags {
  std::string kv_bits = "f16";             // CODEC, or full=CODEC+sliding=CODEC
  std::optional<std::string> kv_key_bits;  // overrides the K half of kv_bits: f16 8 6 5 4 3 2
  std::optional<std::string> kv_value_bits;
  size_t kv_budget = 0;                // bytes that the cache may take, codecs chosen; 0: kv_bits
  size_t kv_memory = 0;                // bytes of the pool of pages; 0: parallel sequences' bound
  std::string kv_calibration;          // file of measured K balance factors, or empty
  std::string kv_scheme = "hadamard";  // hadamard | affine
  int kv_group_size = 0;               // 0: the scheme's default (hadamard: whole row; affine: 64)
  // Codec of the newest pages of rotated halves below 8 bits: none, 8 or f16; not given: 8.
  std::optional<std::string> kv_hot;
  int64_t quantized_kv_start = 0;  // rows with a lower index read f16
  int64_t max_kv_size = 0;         // 0: unbounded
  int64_t keep = 0;                // pinned first tokens of bounded full layers
  int64_t ctx = 0;                 // 0: the model's trained context, at most 4096
  int parallel = 1;                // sequences
  int64_t chunk = 512;             // largest prefill step in tokens
  int64_t rollback = 0;            // rows that a rollback may take back
  int64_t prefix_cache_bytes = 0;  // of snapshots for prefix reuse; < 0: as much as kv_bytes
  bool save = false;               // the cache will be saved to a file, or read from one
};

}  // namespace ringkeep
