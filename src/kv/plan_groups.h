// The storage groups of a plan while it is made, and every size that follows from them. Private to
// the room.
#pragma once

#include <vector>

#include "kernels/api/ops.h"
#include "kv/plan.h"

namespace ringkeep::kv {

// What a group holds of its layers.
enum class Role : uint8_t {
  rows,          // every row in sight, in the layers' codecs
  before_start,  // rows of sequences shorter than --quantized-kv-start
  hot,           // the newest pages a second time
};

class PlanGroups {
 public:
  // Both must outlive it. plan.quantized_start, chunk, rollback and parallel must be settled before
  // the first join.
  PlanGroups(KvPlan& plan, const kernels::Ops& ops) : plan_(plan), ops_(ops) {}

  // The group for rows of the layer in `geometry`: an equal one of equal layers, or a new one.
  int join(const LayerPlan& layer, const kernels::KvGeometry& geometry, Role role);
  // Once all layers have joined: bytes of every layer and of the whole, or refusals. `memory`: the
  // pools take at most so much in all; 0: each sequence may come to its bound.
  void add_totals(size_t memory);
  // Then: pages for snapshots of `bytes` in all; < 0: as much as the sequences may hold.
  void add_snapshots(int64_t bytes);

 private:
  void size_group(GroupPlan& group, const kernels::KvGeometry& geometry) const;
  void size_layer(LayerPlan& layer) const;
  bool grows(const GroupPlan& group) const;  // with every token of a sequence
  void deal(size_t memory);

  KvPlan& plan_;
  const kernels::Ops& ops_;
  std::vector<kernels::KvGeometry> codecs_;  // [groups] geometry of the layers' rows
};

}  // namespace ringkeep::kv
