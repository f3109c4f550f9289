// The file of a saved cache: a safetensors container (docs/saved-caches.md). Reading checks every
// size before anything is allocated or believed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/cache_rows.h"
#include "engine/fingerprint.h"
#include "kernels/api/kv_types.h"

namespace ringkeep::engine {

inline constexpr const char* kSavedVersionKey = "ringkeep_cache";
inline constexpr const char* kSavedVersion = "1";

// The rows of one layer in one tier, as far as rows to come can see them.
struct SavedRows {
  int layer = 0;
  std::string tier;
  kernels::KvGeometry geometry;
  RowRanges ranges;  // token indices
  HostRows rows;     // into the file's bytes
};

struct SavedState {
  Fingerprint fingerprint;
  std::vector<int32_t> tokens;  // whose rows these are: token index i is tokens[i]
  std::vector<SavedRows> layers;
};

// Whether a parsed container's metadata says that it is one of ours, of whatever version.
bool is_saved_state(const std::map<std::string, std::string>& metadata);

// Errors (input) begin with `name`: no container, another format version, sizes or tensors that do
// not belong together, a scale or half that is not finite. The checksum is apart: it reads all.
Result<SavedState> parse_saved_state(std::span<const std::byte> bytes, const std::string& name);
Status check_saved_state_sum(std::span<const std::byte> bytes, const std::string& name);

// Writes the state of a sequence whose rows are `tokens`.
Status write_saved_state(CacheAccess access, kv::SequenceId sequence,
                         std::span<const int32_t> tokens, const Fingerprint& fingerprint,
                         const std::string& path);

// A sequence with the saved rows. Errors (refused) begin with `name` and say which field differs,
// what this run has and what the file has.
Result<kv::SequenceId> restore_saved_state(CacheAccess access, const SavedState& state,
                                           const Fingerprint& expected, const std::string& name);

}  // namespace ringkeep::engine
