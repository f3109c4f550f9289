#include "models/blocks/cached_attention.h"

namespace ringkeep::models {
namespace {

const kernels::KvGeometry& geometry_of(const kv::Store& store, int group) {
  return store.plan().groups[static_cast<size_t>(group)].geometry;
}

// The rows of a step that go to one storage of a layer, with the hot tier beside them.
void append(const CachedAttention& p, const kv::LayerStorage& storage, const kv::KvBatch& batch,
            const kv::Store& store, const kernels::Ops& ops, kernels::Exec& exec) {
  const auto& group = batch.groups[static_cast<size_t>(storage.group)];
  const kernels::KvGeometry& geometry = geometry_of(store, storage.group);
  kernels::KvHotAppend hot;
  if (storage.hot) {
    const auto& [index, data, stride] = *storage.hot;
    hot = {geometry_of(store, index), data, stride,
           batch.groups[static_cast<size_t>(index)].slots.data()};
  }
  kernels::run(ops.kv_append,
               kernels::KvAppendParams{.geometry = geometry,
                                       .k = p.k,
                                       .v = p.v,
                                       .k_stride = int64_t{geometry.kv_heads} * geometry.k_dim,
                                       .v_stride = int64_t{geometry.kv_heads} * geometry.v_dim,
                                       .k_transform = p.k_transform,
                                       .segments = group.segments.data(),
                                       .n_segments = static_cast<int64_t>(group.segments.size()),
                                       .slots = group.slots.data(),
                                       .storage = storage.data,
                                       .page_stride = storage.page_stride,
                                       .non_finite = p.non_finite,
                                       .hot = hot},
               exec);
}

}  // namespace

void append_rows(const CachedAttention& p, const kv::KvBatch& batch, const kv::Store& store,
                 const kernels::Ops& ops, kernels::Exec& exec) {
  for (const kv::LayerStorage& storage : store.storage(p.layer))
    if (!batch.groups[static_cast<size_t>(storage.group)].segments.empty())
      append(p, storage, batch, store, ops, exec);
}

void cached_attention(const CachedAttention& p, const kv::KvBatch& batch, const kv::Store& store,
                      const kernels::Ops& ops, kernels::Exec& exec) {
  const kv::LayerPlan& plan = store.plan().layers[static_cast<size_t>(p.layer)];
  for (const kv::LayerStorage& storage : store.storage(p.layer)) {
    const auto& group = batch.groups[static_cast<size_t>(storage.group)];
    if (group.segments.empty()) continue;
    if (plan.donor < 0) append(p, storage, batch, store, ops, exec);
    const kernels::KvGeometry& geometry = geometry_of(store, storage.group);
    kernels::KvHotPages hot;
    if (storage.hot) {
      const auto& [index, data, stride] = *storage.hot;
      hot = {geometry_of(store, index), data, stride,
             batch.groups[static_cast<size_t>(index)].segments.data()};
    }
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
                                          .n_segments = static_cast<int64_t>(group.segments.size()),
                                          .hot = hot},
                 exec);
  }
}

}  // namespace ringkeep::models
