#include "kv/store.h"

#include <algorithm>

#include "kv/store_state.h"

namespace ringkeep::kv {

using kernels::kPageTokens;
using kernels::KvSegment;
using kernels::PageRef;

int64_t find_page(const PageTable& table, int64_t logical) {
  const auto found =
      std::lower_bound(table.begin(), table.end(), logical,
                       [](const PageRef& page, int64_t wanted) { return page.logical < wanted; });
  return found != table.end() && found->logical == logical ? found - table.begin() : -1;
}

Sequence& Store::State::at(SequenceId id) {
  RK_CHECK(id >= 0 && static_cast<size_t>(id) < sequences.size() &&
               sequences[static_cast<size_t>(id)].open,
           "sequence {} is not open", id);
  return sequences[static_cast<size_t>(id)];
}

const Sequence& Store::State::at(SequenceId id) const { return const_cast<State*>(this)->at(id); }

bool Store::State::lives_in(const Sequence& sequence, const Group& group) const {
  return group.tenancy == Tenancy::always ||
         (group.tenancy == Tenancy::after_start) == sequence.coded;
}

bool Store::State::reaches_start(const Sequence& sequence, int64_t rows) const {
  return plan.crosses_start() && !sequence.coded && rows == plan.quantized_start;
}

void Store::State::drop_table(Sequence& sequence, size_t group) {
  for (const PageRef& page : sequence.tables[group]) groups[group].pool.release(page.physical);
  sequence.tables[group].clear();
}

void Store::State::drop_tail(Sequence& sequence) {
  for (size_t g = 0; g < groups.size(); ++g) {
    PageTable& table = sequence.tables[g];
    while (!table.empty() && int64_t{table.back().logical} * kPageTokens >= sequence.length) {
      groups[g].pool.release(table.back().physical);
      table.pop_back();
    }
  }
}

void Store::State::drop_unseen(Sequence& sequence) {
  for (size_t g = 0; g < groups.size(); ++g)
    std::erase_if(sequence.tables[g], [&](const PageRef& page) {
      if (groups[g].sight.sees_page(sequence.floor, page.logical)) return false;
      groups[g].pool.release(page.physical);
      return true;
    });
}

Store::Store() : state_(std::make_unique<State>()) {}
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::create(const KvPlan& plan, kernels::Device& device,
                                             const kernels::Ops& ops) {
  RK_CHECK(plan.runnable(), "{}", refusal_error(plan).message);
  std::unique_ptr<Store> store(new Store());
  State& state = *store->state_;
  state.plan = plan;
  state.ops = &ops;
  state.sequences.resize(static_cast<size_t>(plan.parallel));
  for (const GroupPlan& group : plan.groups)
    state.groups.push_back({.sight = sight_of(group),
                            .tenancy = group.before_start ? Tenancy::before_start : Tenancy::always,
                            .pool = RK_TRY(PagePool::create(group, device))});
  size_t slab_bytes = 0;
  for (const LayerPlan& layer : plan.layers) {
    RK_CHECK(layer.group >= 0, "layer {} has no group", layer.index);
    const int owner = layer.donor >= 0 ? layer.donor : layer.index;
    const auto in_group = [&](int g) {
      const auto& layers = plan.groups[static_cast<size_t>(g)].layers;
      const auto place = std::find(layers.begin(), layers.end(), owner) - layers.begin();
      const PagePool& pool = state.groups[static_cast<size_t>(g)].pool;
      return GroupStorage{g, pool.layer_data(static_cast<size_t>(place)),
                          static_cast<int64_t>(pool.page_bytes())};
    };
    auto& entries = state.storage.emplace_back();
    if (layer.f16_group >= 0) entries.push_back({in_group(layer.f16_group), std::nullopt});
    entries.push_back({in_group(layer.group), std::nullopt});
    if (layer.hot_group >= 0) entries.back().hot = in_group(layer.hot_group);
    if (layer.f16_group < 0) continue;
    std::vector<int>& twins = state.groups[static_cast<size_t>(layer.f16_group)].twins;
    twins = {layer.group};
    if (layer.hot_group >= 0) twins.push_back(layer.hot_group);
    for (const int g : twins) state.groups[static_cast<size_t>(g)].tenancy = Tenancy::after_start;
    slab_bytes = std::max(slab_bytes, slab_bytes_of(layer.geometry));
  }
  if (plan.crosses_start()) state.slab = RK_TRY(device.allocate(slab_bytes));
  return store;
}

Result<SequenceId> Store::open() {
  auto& sequences = state_->sequences;
  const auto free = std::find_if(sequences.begin(), sequences.end(),
                                 [](const Sequence& sequence) { return !sequence.open; });
  if (free == sequences.end())
    return make_error(ErrorKind::runtime, "all {} sequences of the cache are open",
                      sequences.size());
  *free = Sequence{};
  free->open = true;
  free->tables.resize(state_->groups.size());
  return static_cast<SequenceId>(free - sequences.begin());
}

Result<SequenceId> Store::fork(SequenceId from) {
  RK_CHECK(state_->at(from).step_rows == 0, "sequence {} has an open step", from);
  const SequenceId id = RK_TRY(open());
  Sequence& copy = state_->at(id);
  copy = state_->at(from);
  for (size_t g = 0; g < state_->groups.size(); ++g)
    for (const PageRef& page : copy.tables[g]) state_->groups[g].pool.share(page.physical);
  return id;
}

void Store::close(SequenceId id) {
  Sequence& sequence = state_->at(id);
  for (size_t g = 0; g < state_->groups.size(); ++g) {
    state_->drop_table(sequence, g);
    state_->groups[g].pool.trim();
  }
  sequence.open = false;
}

Status Store::commit(SequenceId id, int64_t rows, kernels::Exec& exec) {
  State& state = *state_;
  Sequence& sequence = state.at(id);
  RK_CHECK(sequence.step_rows > 0, "sequence {} has no open step", id);
  RK_CHECK(rows >= 0 && rows <= sequence.step_rows, "{} of {} rows", rows, sequence.step_rows);
  const int64_t length = sequence.length + rows;
  if (state.reaches_start(sequence, length)) {
    if (Status status = state.encode(sequence, length, exec); !status.ok()) {
      abort_step(id);
      return status;
    }
    sequence.coded = true;
    sequence.floor = length;
  }
  sequence.step_rows = 0;
  sequence.length = length;
  sequence.floor = std::max(sequence.floor, length - state.plan.rollback);
  state.drop_tail(sequence);
  state.drop_unseen(sequence);
  return {};
}

void Store::abort_step(SequenceId id) {
  Sequence& sequence = state_->at(id);
  sequence.step_rows = 0;
  state_->drop_tail(sequence);
}

Status Store::rollback(SequenceId id, int64_t rows) {
  Sequence& sequence = state_->at(id);
  RK_CHECK(sequence.step_rows == 0, "sequence {} has an open step", id);
  RK_CHECK(rows >= 0);
  if (rows > rollback_limit(id))
    return make_error(ErrorKind::runtime,
                      "sequence {}: cannot take back {} of {} rows, at most {} (the planned margin "
                      "is {})",
                      id, rows, sequence.length, rollback_limit(id), state_->plan.rollback);
  sequence.length -= rows;
  state_->drop_tail(sequence);
  return {};
}

bool Store::shares_tail(SequenceId id) const {
  const Sequence& sequence = state_->at(id);
  if (sequence.length % kPageTokens == 0) return false;
  for (size_t g = 0; g < state_->groups.size(); ++g) {
    const PageTable& table = sequence.tables[g];
    if (!table.empty() && state_->groups[g].pool.owners(table.back().physical) > 1) return true;
  }
  return false;
}

int64_t Store::length(SequenceId id) const { return state_->at(id).length; }

int64_t Store::rollback_limit(SequenceId id) const {
  const Sequence& sequence = state_->at(id);
  return sequence.length - sequence.floor;
}

int64_t Store::max_step_rows(SequenceId id) const {
  const Sequence& sequence = state_->at(id);
  const KvPlan& plan = state_->plan;
  const bool before = plan.crosses_start() && !sequence.coded;
  const int64_t end = before ? plan.quantized_start : plan.max_length();
  return std::min(plan.chunk, end - sequence.length);
}

std::span<const LayerStorage> Store::storage(int layer) const {
  return state_->storage[static_cast<size_t>(layer)];
}

GroupStorage Store::place(int layer, int group) const {
  const auto& layers = state_->plan.groups[static_cast<size_t>(group)].layers;
  const auto found = std::find(layers.begin(), layers.end(), layer);
  RK_CHECK(found != layers.end(), "layer {} is not in group {}", layer, group);
  const PagePool& pool = state_->groups[static_cast<size_t>(group)].pool;
  return {group, pool.layer_data(static_cast<size_t>(found - layers.begin())),
          static_cast<int64_t>(pool.page_bytes())};
}

std::vector<GroupUsage> Store::usage() const {
  std::vector<GroupUsage> usage;
  for (const Group& group : state_->groups)
    usage.push_back({group.pool.used(), group.pool.owned(), group.pool.pages_held(),
                     group.pool.limit(), group.pool.bytes_used()});
  return usage;
}

size_t Store::bytes_used() const {
  size_t bytes = 0;
  for (const Group& group : state_->groups) bytes += group.pool.bytes_used();
  return bytes;
}

const KvPlan& Store::plan() const { return state_->plan; }

std::vector<int64_t> Store::resident(SequenceId id, int group) const {
  std::vector<int64_t> indices;
  for (const PageRef& page : state_->at(id).tables[static_cast<size_t>(group)])
    for (int64_t i = 0; i < kPageTokens; ++i) {
      const int64_t index = int64_t{page.logical} * kPageTokens + i;
      if (slot(id, group, index) >= 0) indices.push_back(index);
    }
  return indices;
}

std::span<const PageRef> Store::pages(SequenceId id, int group) const {
  return state_->at(id).tables[static_cast<size_t>(group)];
}

int64_t Store::slot(SequenceId id, int group, int64_t index) const {
  const Sequence& sequence = state_->at(id);
  const PageTable& table = sequence.tables[static_cast<size_t>(group)];
  if (index < 0 || index >= sequence.length + sequence.step_rows ||
      !state_->groups[static_cast<size_t>(group)].sight.sees(sequence.floor, index))
    return -1;
  const int64_t place = find_page(table, index / kPageTokens);
  if (place < 0) return -1;
  return int64_t{table[static_cast<size_t>(place)].physical} * kPageTokens + index % kPageTokens;
}

}  // namespace ringkeep::kv
