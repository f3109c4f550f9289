#include "models/blocks/cached_attention.h"

namespace ringkeep::models {

void cached_attention(const CachedAttention& p, const kv::KvBatch& batch, const kv::Store& store,
                      const kernels::Ops& ops, kernels::Exec& exec) {
  const kv::LayerPlan& plan = store.plan().layers[static_cast<size_t>(p.layer)];
  const auto geometry_of = [&](int group) -> const kernels::KvGeometry& {
    return store.plan().groups[static_cast<size_t>(group)].geometry;
  };
  for (const kv::LayerStorage& storage : store.storage(p.layer)) {
    const auto& group = batch.groups[static_cast<size_t>(storage.group)];
    if (group.segments.empty()) continue;
    const kernels::KvGeometry& geometry = geometry_of(storage.group);
    const auto segments = static_cast<int64_t>(group.segments.size());
    kernels::KvHotAppend hot_rows;
    kernels::KvHotPages hot_pages;
    if (storage.hot) {
      const auto& [index, data, stride] = *storage.hot;
      const auto& hot = batch.groups[static_cast<size_t>(index)];
      hot_rows = {geometry_of(index), data, stride, hot.slots.data()};
      hot_pages = {geometry_of(index), data, stride, hot.segments.data()};
    }
    if (plan.donor < 0)
      kernels::run(ops.kv_append,
                   kernels::KvAppendParams{.geometry = geometry,
                                           .k = p.k,
                                           .v = p.v,
                                           .k_stride = int64_t{geometry.kv_heads} * geometry.k_dim,
                                           .v_stride = int64_t{geometry.kv_heads} * geometry.v_dim,
                                           .k_transform = p.k_transform,
                                           .segments = group.segments.data(),
                                           .n_segments = segments,
                                           .slots = group.slots.data(),
                                           .storage = storage.data,
                                           .page_stride = storage.page_stride,
                                           .non_finite = p.non_finite,
                                           .hot = hot_rows},
                   exec);
    kernels::run(ops.attention,
                 kernels::AttentionParams{.geometry = geometry,
                                          .storage = storage.data,
                                          .page_stride = storage.page_stride,
                                          .heads = p.heads,
                                          .q = p.q,
                                          .q_stride = int64_t{p.heads} * geometry.k_dim,
                                          .out = p.out,
                                          .out_stride = int64_t{p.heads} * geometry.v_dim,
                                          .scale = p.scale,
                                          .softcap = p.softcap,
                                          .sinks = p.sinks,
                                          .window = plan.window,
                                          .keep = plan.keep,
                                          .chunk_size = plan.chunk_size,
                                          .segments = group.segments.data(),
                                          .n_segments = segments,
                                          .hot = hot_pages},
                 exec);
  }
}

}  // namespace ringkeep::models
