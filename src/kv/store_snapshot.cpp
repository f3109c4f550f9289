// Snapshots: page tables without a sequence. A page is shared until somebody writes into it.
#include <algorithm>

#include "kv/store_state.h"

namespace ringkeep::kv {
namespace {

using kernels::kPageTokens;
using kernels::PageRef;

// Whether rows at and after `length` read the page or go on writing it.
bool is_needed(const Group& group, const PageRef& page, int64_t length) {
  return page.logical < pages_for(length) && group.sight.sees_page(length, page.logical);
}

}  // namespace

const Snapshot& Store::State::snapshot(SnapshotId id) const {
  const auto found = snapshots.find(id);
  RK_CHECK(found != snapshots.end(), "snapshot {} does not exist", id);
  return found->second;
}

Result<SnapshotId> Store::freeze(SequenceId id) {
  State& state = *state_;
  const Sequence& sequence = state.at(id);
  RK_CHECK(sequence.step_rows == 0, "sequence {} has an open step", id);
  Snapshot snapshot{.length = sequence.length, .coded = sequence.coded};
  size_t bytes = snapshot_bytes();
  for (size_t g = 0; g < state.groups.size(); ++g) {
    const PagePool& pool = state.groups[g].pool;
    PageTable& table = snapshot.tables.emplace_back();
    int64_t fresh = 0;
    for (const PageRef& page : sequence.tables[g]) {
      if (!is_needed(state.groups[g], page, sequence.length)) continue;
      table.push_back(page);
      if (!pool.held(page.physical)) ++fresh;
    }
    bytes += pool.bytes_of_pages(fresh);
  }
  if (bytes > state.plan.prefix_cache_bytes)
    return make_error(ErrorKind::refused,
                      "a snapshot of {} tokens would bring the snapshots to {} bytes, "
                      "--prefix-cache-bytes allows {}",
                      snapshot.length, bytes, state.plan.prefix_cache_bytes);
  for (size_t g = 0; g < state.groups.size(); ++g)
    for (const PageRef& page : snapshot.tables[g]) state.groups[g].pool.hold(page.physical);
  state.snapshots.emplace(state.next_snapshot, std::move(snapshot));
  return state.next_snapshot++;
}

void Store::drop(SnapshotId id) {
  State& state = *state_;
  const Snapshot& snapshot = state.snapshot(id);
  for (size_t g = 0; g < state.groups.size(); ++g) {
    for (const PageRef& page : snapshot.tables[g]) state.groups[g].pool.let_go(page.physical);
    state.groups[g].pool.trim();
  }
  state.snapshots.erase(id);
}

bool Store::can_thaw(SnapshotId id, int64_t length) const {
  const State& state = *state_;
  const Snapshot& snapshot = state.snapshot(id);
  if (length < 0 || length > snapshot.length) return false;
  // Rows below --quantized-kv-start read f16, and the snapshot may hold codes only.
  if (snapshot.coded && length < state.plan.quantized_start) return false;
  return std::all_of(state.groups.begin(), state.groups.end(), [&](const Group& group) {
    return group.sight.oldest(length) == group.sight.oldest(snapshot.length);
  });
}

Result<SequenceId> Store::thaw(SnapshotId id, int64_t length) {
  State& state = *state_;
  RK_CHECK(can_thaw(id, length), "snapshot {} cannot go on from {} rows", id, length);
  const Snapshot& snapshot = state.snapshot(id);
  const SequenceId to = RK_TRY(open());
  Sequence& sequence = state.at(to);
  sequence.length = sequence.floor = length;
  sequence.coded = snapshot.coded;
  for (size_t g = 0; g < state.groups.size(); ++g)
    for (const PageRef& page : snapshot.tables[g]) {
      if (!is_needed(state.groups[g], page, length)) continue;
      sequence.tables[g].push_back(page);
      state.groups[g].pool.share(page.physical);
    }
  return to;
}

int64_t Store::snapshot_length(SnapshotId id) const { return state_->snapshot(id).length; }

size_t Store::freeze_bytes(SequenceId id) const {
  const Sequence& sequence = state_->at(id);
  size_t bytes = 0;
  for (size_t g = 0; g < state_->groups.size(); ++g) {
    const Group& group = state_->groups[g];
    for (const PageRef& page : sequence.tables[g])
      if (is_needed(group, page, sequence.length)) bytes += group.pool.bytes_of_pages(1);
  }
  return bytes;
}

size_t Store::snapshot_bytes() const {
  size_t bytes = 0;
  for (const Group& group : state_->groups)
    bytes += group.pool.bytes_of_pages(group.pool.pages_held());
  return bytes;
}

Result<SequenceId> Store::restore(int64_t length) {
  State& state = *state_;
  if (length < 0 || length > state.plan.max_length())
    return make_error(ErrorKind::runtime, "a cache of {} rows exceeds the {} of --ctx", length,
                      state.plan.max_length());
  const SequenceId id = RK_TRY(open());
  Sequence& sequence = state.at(id);
  sequence.length = sequence.floor = length;
  sequence.coded = state.plan.crosses_start() && length >= state.plan.quantized_start;
  for (size_t g = 0; g < state.groups.size(); ++g) {
    Group& group = state.groups[g];
    if (!state.lives_in(sequence, group)) continue;
    for (int64_t p = 0; p < pages_for(length); ++p) {
      if (!group.sight.sees_page(length, p)) continue;
      if (group.pool.available() == 0) {
        close(id);
        return make_error(ErrorKind::runtime, "no free pages: cache group {} has {} in all", g,
                          group.pool.limit());
      }
      sequence.tables[g].push_back({static_cast<int32_t>(p), group.pool.take()});
    }
  }
  return id;
}

std::vector<int64_t> Store::needed(SequenceId id, int group) const {
  const Sequence& sequence = state_->at(id);
  const Sight& sight = state_->groups[static_cast<size_t>(group)].sight;
  std::vector<int64_t> indices;
  for (const PageRef& page : sequence.tables[static_cast<size_t>(group)]) {
    const int64_t first = int64_t{page.logical} * kPageTokens;
    for (int64_t k = first; k < std::min(first + kPageTokens, sequence.length); ++k)
      if (sight.sees(sequence.length, k)) indices.push_back(k);
  }
  return indices;
}

}  // namespace ringkeep::kv
