// The oracle of the store: every sequence is a list of rows that never forgets, and what a query
// row sees is the visibility rule applied to the whole list.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kv/plan.h"
#include "kv/store.h"

namespace ringkeep::kv::testing {

struct NaiveSequence {
  std::vector<float> rows;  // the number written for each token index
  int64_t step_rows = 0;    // at the end of `rows`, not committed
  int64_t floor = 0;        // the longest committed length so far, less the margin
  bool coded = false;

  int64_t length() const { return static_cast<int64_t>(rows.size()) - step_rows; }

  void commit(const KvPlan& plan, int64_t keep_rows) {
    rows.resize(static_cast<size_t>(length() + keep_rows));
    step_rows = 0;
    floor = std::max(floor, length() - plan.rollback);
    if (plan.quantized_start > 0 && plan.quantized_start < plan.max_length() &&
        length() == plan.quantized_start) {
      coded = true;
      floor = length();
    }
  }
  void rollback(int64_t n) { rows.resize(rows.size() - static_cast<size_t>(n)); }
};

// Whether row q reads row k from the group: of a hot one, the page of its own token, the page
// before it and later ones.
inline bool naive_visible(const GroupPlan& group, int64_t q, int64_t k, int64_t span_end) {
  if (group.hot && k / 64 < q / 64 - 1) return false;
  return group.chunk_size > 0 ? kernels::visible_chunked(q, k, group.chunk_size)
                              : kernels::visible(q, k, group.window, group.keep, span_end);
}

// Whether rows of the sequence live in the group: f16 before --quantized-kv-start, codes after it.
inline bool naive_lives_in(const KvPlan& plan, const NaiveSequence& sequence, int group) {
  for (const LayerPlan& layer : plan.layers) {
    if (layer.f16_group == group) return !sequence.coded;
    const bool coded = layer.group == group || layer.hot_group == group;
    if (coded && layer.f16_group >= 0) return sequence.coded;
  }
  return true;
}

// Every place of a layer's rows: a hot tier counts as one.
inline std::vector<GroupStorage> places_of(const Store& store, int layer) {
  std::vector<GroupStorage> places;
  for (const LayerStorage& place : store.storage(layer)) {
    places.push_back(place);
    if (place.hot) places.push_back(*place.hot);
  }
  return places;
}

// The rows of a step, with their second encoding in the layer's hot tier.
inline kernels::KvAppendParams append_params(const KvPlan& plan, const KvBatch& batch,
                                             const LayerStorage& place, const float* k,
                                             const float* v, int32_t* non_finite) {
  const kernels::KvGeometry& geometry = plan.groups[static_cast<size_t>(place.group)].geometry;
  const GroupBatch& group = batch.groups[static_cast<size_t>(place.group)];
  kernels::KvAppendParams p{.geometry = geometry,
                            .k = k,
                            .v = v,
                            .k_stride = int64_t{geometry.kv_heads} * geometry.k_dim,
                            .v_stride = int64_t{geometry.kv_heads} * geometry.v_dim,
                            .segments = group.segments.data(),
                            .n_segments = static_cast<int64_t>(group.segments.size()),
                            .slots = group.slots.data(),
                            .storage = place.data,
                            .page_stride = place.page_stride,
                            .non_finite = non_finite};
  if (place.hot) {
    const auto hot = static_cast<size_t>(place.hot->group);
    p.hot = {plan.groups[hot].geometry, place.hot->data, place.hot->page_stride,
             batch.groups[hot].slots.data()};
  }
  return p;
}

}  // namespace ringkeep::kv::testing
