// Token prefixes and the snapshots of the cache at their ends. A generation begins from the longest
// one that is a prefix of its prompt and computes the rest.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "kv/store.h"

namespace ringkeep::engine {

// A token whose row was computed as a generated one, where that differs from a prompt's
// (kernels::Ops::coarse_prompts). It equals no token of a prompt, so that such rows are never taken
// for a prompt's.
constexpr int32_t generated(int32_t token) { return -2 - token; }

class PrefixCache {
 public:
  // The budget is the store's (plan().prefix_cache_bytes). The store must outlive this object.
  explicit PrefixCache(kv::Store& store) : store_(store) {}
  ~PrefixCache() { clear(); }
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  struct Hit {
    kv::SnapshotId snapshot = 0;
    int64_t length = 0;  // rows to go on from
  };
  // The most tokens at the beginning of `tokens` that a snapshot can go on from, but not all of
  // them, so that there is one to compute. A snapshot that goes on differently serves as far as
  // both agree where it still holds all that is in sight there (no window has moved since).
  // `salt` stands for what else must be equal: adapter, images. `whichever`: tokens match generated
  // ones, too.
  std::optional<Hit> find(std::span<const int32_t> tokens, uint64_t salt, bool whichever = false);

  // The most tokens at the beginning of `tokens` that a kept one begins with, whether or not a
  // sequence can go on from there.
  int64_t longest_common(std::span<const int32_t> tokens, uint64_t salt) const;

  // Keeps the state of a sequence whose rows are `tokens`. Those used least recently give way.
  // False when it does not fit into the budget at all; then nothing gives way.
  bool insert(std::span<const int32_t> tokens, uint64_t salt, kv::SequenceId sequence);

  void clear();
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::vector<int32_t> tokens;
    uint64_t salt = 0;
    kv::SnapshotId snapshot = 0;
  };
  kv::Store& store_;
  std::list<Entry> entries_;  // used most recently first
};

}  // namespace ringkeep::engine
