#include "engine/prefix_cache.h"

#include <algorithm>

namespace ringkeep::engine {

std::optional<PrefixCache::Hit> PrefixCache::find(std::span<const int32_t> tokens, uint64_t salt,
                                                  bool whichever) {
  const auto same = [whichever](int32_t kept, int32_t token) {
    return kept == token || (whichever && kept == generated(token));
  };
  Hit best;
  auto used = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->salt != salt) continue;
    const auto differ = std::mismatch(entry->tokens.begin(), entry->tokens.end(), tokens.begin(),
                                      tokens.end(), same);
    const int64_t common =
        std::min<int64_t>(differ.second - tokens.begin(), static_cast<int64_t>(tokens.size()) - 1);
    if (common <= best.length || !store_.can_thaw(entry->snapshot, common)) continue;
    best = {entry->snapshot, common};
    used = entry;
  }
  if (used == entries_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, used);
  return best;
}

int64_t PrefixCache::longest_common(std::span<const int32_t> tokens, uint64_t salt) const {
  int64_t longest = 0;
  for (const Entry& entry : entries_) {
    if (entry.salt != salt) continue;
    const auto differ =
        std::mismatch(entry.tokens.begin(), entry.tokens.end(), tokens.begin(), tokens.end());
    longest = std::max<int64_t>(longest, differ.second - tokens.begin());
  }
  return longest;
}

bool PrefixCache::insert(std::span<const int32_t> tokens, uint64_t salt, kv::SequenceId sequence) {
  RK_CHECK(store_.length(sequence) == static_cast<int64_t>(tokens.size()));
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.salt == salt && std::ranges::equal(entry.tokens, tokens);
  });
  if (same != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, same);
    return true;
  }
  if (store_.freeze_bytes(sequence) > store_.plan().prefix_cache_bytes) return false;
  for (;;) {
    if (auto snapshot = store_.freeze(sequence); snapshot.ok()) {
      entries_.push_front({{tokens.begin(), tokens.end()}, salt, *snapshot});
      return true;
    }
    if (entries_.empty()) return false;  // a snapshot of somebody else holds the rest
    store_.drop(entries_.back().snapshot);
    entries_.pop_back();
  }
}

void PrefixCache::clear() {
  for (const Entry& entry : entries_) store_.drop(entry.snapshot);
  entries_.clear();
}

}  // namespace ringkeep::engine
