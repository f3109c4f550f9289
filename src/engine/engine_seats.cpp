// Sequences of the store for requests: what the policy of admission.h works on.
#include <algorithm>

#include "engine/engine_state.h"

namespace ringkeep::engine {
namespace {

constexpr int64_t kSnapshotStride = 1024;  // tokens of a prompt between snapshots
// Tokens that waiting for another's prefill, or a snapshot where prompts part, must save.
constexpr int64_t kWorthWaiting = 64;
constexpr size_t kMostPartings = 8;  // snapshots of a prompt for the sake of others

int64_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

}  // namespace

Generation* Engine::State::find(int64_t id) {
  const auto found = std::ranges::find(generations, id, &Generation::id);
  return found == generations.end() ? nullptr : &*found;
}

Generation* Engine::State::leader_of(const Generation& g) {
  if (g.request.fork_of == 0 || g.begun) return nullptr;
  Generation* leader = find(g.request.fork_of);
  return leader != nullptr && leader->prefilling() && leader->output().empty() ? leader : nullptr;
}

int64_t Engine::State::prefix_to_come(const Generation& g) const {
  int64_t most = 0;
  for (const Generation& other : generations) {
    if (other.snapshots.empty() || other.request.cache_salt != g.request.cache_salt) continue;
    // One token is left to compute.
    const int64_t common = std::min(common_prefix(other.prompt(), g.tokens),
                                    static_cast<int64_t>(g.tokens.size()) - 1);
    const auto within =
        std::ranges::find_if(other.snapshots, [&](int64_t n) { return n <= common; });
    if (within != other.snapshots.end()) most = std::max(most, *within);
  }
  return most;
}

bool Engine::State::waits(const Ticket& ticket) {
  Generation& g = *find(ticket.id);
  if (const Generation* leader = leader_of(g)) return !leader->ticket.running();
  if (!prefixes || g.request.after || !g.request.reuse_prefix) return false;
  const int64_t to_come = prefix_to_come(g);
  if (to_come == 0) return false;
  if (!g.found) {
    const auto hit = prefixes->find(rows_of(g, g.tokens.size()), g.request.cache_salt);
    g.found = hit ? hit->length : 0;
  }
  return to_come >= *g.found + kWorthWaiting;
}

bool Engine::State::open(Ticket& ticket) {
  Generation& g = *find(ticket.id);
  if (const Generation* leader = leader_of(g)) {
    g.leader = leader->id;
    ticket.cached = g.prompt_size;
    return true;
  }
  std::optional<PrefixCache::Hit> hit;
  if (g.request.after)
    hit = PrefixCache::Hit{*g.request.after, store->snapshot_length(*g.request.after)};
  else if (prefixes && g.request.reuse_prefix)
    hit = prefixes->find(rows_of(g, g.tokens.size()), g.request.cache_salt);
  const auto sequence = hit ? store->thaw(hit->snapshot, hit->length) : store->open();
  if (!sequence.ok()) return false;
  g.sequence = *sequence;
  ticket.cached = hit ? hit->length : 0;
  if (prefixes && !g.request.after) plan_snapshots(g);
  return true;
}

// Where the prompt parts from those that wait and from one that was kept: whoever begins like it
// will want the cache as it was there.
std::vector<int64_t> Engine::State::partings(const Generation& g) const {
  std::vector<int64_t> lengths{prefixes->longest_common(g.prompt(), g.request.cache_salt)};
  int looked_at = 0;
  for (const Generation& other : generations) {
    if (other.ticket.running() || other.begun || other.request.cache_salt != g.request.cache_salt)
      continue;
    lengths.push_back(common_prefix(g.prompt(), other.prompt()));
    if (++looked_at == store->plan().parallel) break;
  }
  std::erase_if(lengths, [&](int64_t n) { return n < g.ticket.cached + kWorthWaiting; });
  std::ranges::sort(lengths);
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  if (lengths.size() > kMostPartings) lengths.resize(kMostPartings);
  return lengths;
}

void Engine::State::plan_snapshots(Generation& g) {
  g.snapshots = g.request.snapshot_at;
  for (const int64_t n : partings(g)) g.snapshots.push_back(n);
  for (int64_t n = kSnapshotStride; n < g.prompt_size; n += kSnapshotStride)
    g.snapshots.push_back(n);
  g.snapshots.push_back(g.prompt_size - 1);
  std::erase_if(g.snapshots, [&](int64_t n) { return n <= g.ticket.cached || n >= g.prompt_size; });
  std::ranges::sort(g.snapshots, std::greater());
  g.snapshots.erase(std::unique(g.snapshots.begin(), g.snapshots.end()), g.snapshots.end());
}

void Engine::State::close(Ticket& ticket, bool set_back) {
  Generation& g = *find(ticket.id);
  if (g.sequence >= 0) {
    if (set_back) {
      keep(g);
      ++counts.preemptions;
    }
    store->close(g.sequence);
  }
  g.sequence = -1;
  g.leader = 0;
  g.found.reset();
  g.snapshots.clear();
  ticket.cached = 0;
  for (Generation& follower : generations) {
    if (follower.leader != g.id) continue;
    follower.leader = 0;
    follower.ticket.cached = follower.ticket.reserved = 0;
  }
}

bool Engine::State::shares_tail(const Ticket& ticket) const {
  const auto g = std::ranges::find(generations, ticket.id, &Generation::id);
  return g->leader != 0 ? g->prompt_size % kernels::kPageTokens != 0
                        : store->shares_tail(g->sequence);
}

std::vector<int64_t> Engine::State::owned() const {
  std::vector<int64_t> pages;
  for (const kv::GroupUsage& usage : store->usage()) pages.push_back(usage.pages_owned);
  return pages;
}

void Engine::State::admit() {
  std::vector<Ticket*> tickets;
  for (Generation& g : generations) tickets.push_back(&g.ticket);
  for (const int64_t id : admission->update(tickets, *this)) {
    Generation& g = *find(id);
    if (g.leader == 0) begin(g);
  }
}

void Engine::State::begin(Generation& g) {
  if (g.begun) return;  // it was set back
  g.begun = true;
  g.stats.cached_tokens = g.ticket.cached;
  counts.prompt_tokens += g.prompt_size;
  counts.cached_tokens += g.stats.cached_tokens;
  counts.prefix_hits += g.stats.cached_tokens > 0 ? 1 : 0;
}

std::vector<Generation*> Engine::State::fork_followers(Generation& leader) {
  std::vector<Generation*> forked;
  for (Generation& g : generations) {
    if (g.leader != leader.id) continue;
    g.leader = 0;
    const auto sequence = store->fork(leader.sequence);
    if (!sequence.ok()) {  // it waits again
      g.ticket.cached = g.ticket.reserved = 0;
      continue;
    }
    g.sequence = *sequence;
    begin(g);
    forked.push_back(&g);
  }
  return forked;
}

}  // namespace ringkeep::engine
