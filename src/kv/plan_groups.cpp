#include "kv/plan_groups.h"

#include <algorithm>

#include "kv/sight.h"

namespace ringkeep::kv {

using kernels::kPageTokens;
using kernels::KvGeometry;

namespace {

// A pool larger than this is no address space of a 64-bit machine (2^47 bytes of user space).
using Bytes = unsigned __int128;
constexpr Bytes kMaxPoolBytes = Bytes{1} << 46;

// One page of every layer.
size_t page_bytes(const GroupPlan& group) { return group.page_bytes * group.layers.size(); }

// Pages of a bounded group for some sequences: what each holds while decoding, and what the rows of
// one step add to that, which is no more for many sequences than for one and a page for each.
int64_t pages_of(const GroupPlan& group, int64_t sequences, int64_t step_rows) {
  return sequences * group.pages_decode +
         std::min(sequences * group.pages_prefill, pages_for(step_rows) + sequences);
}

}  // namespace

int PlanGroups::join(const LayerPlan& layer, const KvGeometry& geometry, Role role) {
  GroupPlan group;
  group.geometry = geometry;
  group.window = layer.window;
  group.keep = layer.keep;
  group.chunk_size = layer.chunk_size;
  group.before_start = role == Role::before_start;
  group.hot = role == Role::hot;
  for (size_t i = 0; i < plan_.groups.size(); ++i) {
    GroupPlan& other = plan_.groups[i];
    if (other.geometry != geometry || other.window != group.window || other.keep != group.keep ||
        other.chunk_size != group.chunk_size || other.before_start != group.before_start ||
        other.hot != group.hot || codecs_[i] != layer.geometry)
      continue;
    other.layers.push_back(layer.index);
    return static_cast<int>(i);
  }
  group.layers = {layer.index};
  group.page_bytes = ops_.kv_page_bytes(geometry);
  size_group(group, layer.geometry);
  plan_.groups.push_back(std::move(group));
  codecs_.push_back(layer.geometry);
  return static_cast<int>(plan_.groups.size()) - 1;
}

// Rows below --quantized-kv-start live in the f16 group, none of a sequence that has passed it.
void PlanGroups::size_group(GroupPlan& group, const KvGeometry& geometry) const {
  const bool coded = plan_.quantized_start > 0 && !group.before_start &&
                     !(geometry.k.halves() && geometry.v.halves());
  int64_t length = plan_.max_length();
  group.after_start = coded;
  if (group.before_start) length = std::min(length, plan_.quantized_start);
  if (coded && !plan_.crosses_start()) length = 0;
  const Sight sight = sight_of(group);
  group.pages_decode = sight.page_bound(1, plan_.rollback, length);
  group.pages_prefill = sight.page_bound(plan_.chunk, plan_.rollback, length) - group.pages_decode;
  group.pages_total = (group.pages_decode + group.pages_prefill) * plan_.parallel;
}

void PlanGroups::size_layer(LayerPlan& layer) const {
  if (layer.cache == CacheClass::shared || layer.group < 0) return;
  const GroupPlan& rows = plan_.groups[static_cast<size_t>(layer.group)];
  layer.bytes_per_token = (rows.page_bytes + kPageTokens - 1) / kPageTokens;
  for (const int g : {layer.group, layer.f16_group, layer.hot_group}) {
    if (g < 0) continue;
    const GroupPlan& group = plan_.groups[static_cast<size_t>(g)];
    layer.max_tokens = std::max(layer.max_tokens, group.pages_decode * kPageTokens);
    layer.max_bytes += static_cast<size_t>(group.pages_decode) * group.page_bytes;
  }
}

bool PlanGroups::grows(const GroupPlan& group) const {
  return sight_of(group).keeps_all(plan_.max_length()) &&
         !(group.before_start && plan_.crosses_start());
}

// Bounded groups keep the pages of all sequences where there is room for them beside one sequence
// of the full length, or else of as many sequences as there is. Groups that grow take the rest, the
// same number of tokens each.
void PlanGroups::deal(size_t memory) {
  const int64_t sequences = plan_.parallel;
  Bytes all = 0, alone = 0, grown = 0;
  size_t growing_page = 0;
  for (const GroupPlan& group : plan_.groups) {
    const auto one = static_cast<uint64_t>(group.pages_decode + group.pages_prefill);
    all += Bytes{page_bytes(group)} * static_cast<uint64_t>(group.pages_total);
    alone += Bytes{page_bytes(group)} * one;
    if (!grows(group) || one == 0) continue;
    grown += Bytes{page_bytes(group)} * one;
    growing_page += page_bytes(group);
  }
  if (memory >= all) return;
  if (memory < alone)
    return plan_.refusals.push_back(
        {-1, "", "kv-memory",
         fmt::format("--kv-memory {} bytes is too small: one sequence of {} tokens takes {} bytes; "
                     "lower --ctx or --chunk, or bound it with --max-kv-size",
                     memory, plan_.ctx, static_cast<size_t>(alone))});
  const auto bounded = [&](int64_t n) {
    Bytes bytes = 0;
    for (const GroupPlan& group : plan_.groups)
      if (!grows(group))
        bytes +=
            Bytes{page_bytes(group)} * static_cast<uint64_t>(pages_of(group, n, plan_.step_rows()));
    return bytes;
  };
  int64_t windows = 1;  // sequences that bounded groups have their pages for
  while (windows < sequences && bounded(windows + 1) + grown <= memory) ++windows;
  const size_t rest = memory - static_cast<size_t>(bounded(windows));
  const auto pages = growing_page > 0 ? static_cast<int64_t>(rest / growing_page) : 0;
  for (GroupPlan& group : plan_.groups)
    group.pages_total = std::min(
        group.pages_total, grows(group) ? pages : pages_of(group, windows, plan_.step_rows()));
  plan_.kv_memory = memory;
}

void PlanGroups::add_totals(size_t memory) {
  for (LayerPlan& layer : plan_.layers) size_layer(layer);
  if (memory > 0) deal(memory);
  Bytes decode = 0, prefill = 0;
  for (const GroupPlan& group : plan_.groups) {
    const int64_t decoding = std::min(group.pages_total, group.pages_decode * plan_.parallel);
    decode += Bytes{page_bytes(group)} * static_cast<uint64_t>(decoding);
    prefill += Bytes{page_bytes(group)} * static_cast<uint64_t>(group.pages_total - decoding);
    if (grows(group) && group.pages_total > 0) plan_.pool_tokens = group.pages_total * kPageTokens;
    if (group.pages_total > kMaxIndices)
      plan_.refusals.push_back({-1, "", "size",
                                fmt::format("the pool would hold {} pages, at most {} can be "
                                            "numbered; lower --ctx or --parallel",
                                            group.pages_total, kMaxIndices)});
  }
  if (decode + prefill > kMaxPoolBytes) {
    const double tib = static_cast<double>(decode + prefill) / (1024.0 * 1024 * 1024 * 1024);
    plan_.refusals.push_back(
        {-1, "", "size",
         fmt::format("the cache would need {:.0f} TiB, more than can be addressed; lower --ctx, "
                     "--max-kv-size or --parallel",
                     tib)});
    return;
  }
  plan_.kv_bytes = static_cast<size_t>(decode);
  plan_.kv_prefill_bytes = static_cast<size_t>(prefill);
}

// Each group could come to hold the whole budget: address space is reserved for that, while the
// store counts the bytes of all groups together.
void PlanGroups::add_snapshots(int64_t bytes) {
  const size_t budget = bytes < 0 ? plan_.kv_bytes : static_cast<size_t>(bytes);
  if (budget > kMaxPoolBytes / (plan_.groups.size() + 1))
    return plan_.refusals.push_back(
        {-1, "", "prefix-cache-bytes",
         fmt::format("{} bytes for snapshots in each of {} groups are more than can be addressed",
                     budget, plan_.groups.size())});
  plan_.prefix_cache_bytes = budget;
  for (GroupPlan& group : plan_.groups)
    group.pages_snapshots = std::min(static_cast<int64_t>(budget / page_bytes(group)),
                                     std::max<int64_t>(0, kMaxIndices - group.pages_total));
}

}  // namespace ringkeep::kv
