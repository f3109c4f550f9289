#include "kv/plan_groups.h"

#include <algorithm>

#include "kv/sight.h"

namespace ringkeep::kv {

using kernels::kPageTokens;
using kernels::KvGeometry;

namespace {

// A pool larger than this is no address space of a 64-bit machine (2^47 bytes of user space).
constexpr unsigned __int128 kMaxPoolBytes = static_cast<unsigned __int128>(1) << 46;

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

void PlanGroups::add_totals() {
  for (LayerPlan& layer : plan_.layers) size_layer(layer);
  unsigned __int128 decode = 0, prefill = 0;
  for (const GroupPlan& group : plan_.groups) {
    const auto page = static_cast<unsigned __int128>(group.page_bytes) * group.layers.size() *
                      static_cast<unsigned>(plan_.parallel);
    decode += page * static_cast<uint64_t>(group.pages_decode);
    prefill += page * static_cast<uint64_t>(group.pages_prefill);
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

}  // namespace ringkeep::kv
