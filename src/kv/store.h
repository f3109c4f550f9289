// The page pool and the page tables: who owns which token slots. Bookkeeping only; kernels touch
// the bytes. A step appends rows to sequences, then each is committed or taken back.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/api/ops.h"
#include "kv/plan.h"

namespace ringkeep::kv {

using SequenceId = int32_t;
using SnapshotId = int64_t;

// Rows that one sequence adds in a step.
struct StepEntry {
  SequenceId sequence = 0;
  int64_t row0 = 0;  // first row of the step's tensors
  int64_t rows = 0;
  const int64_t* span_end = nullptr;  // see KvSegment; [rows] or null
};

// What the kernels need for one group in one step.
struct GroupBatch {
  std::vector<kernels::KvSegment> segments;  // of the sequences that live in this group now
  std::vector<int64_t> slots;                // [rows of the step]; -1 where the row is elsewhere
};

// The kernels' view of a step. Valid until the next call that changes the store.
struct KvBatch {
  int64_t rows = 0;
  std::vector<GroupBatch> groups;  // by group of the plan
  std::vector<StepEntry> entries;
  std::vector<std::vector<kernels::PageRef>> pages;  // backing of the segments
};

// Where a layer's bytes lie in one group.
struct GroupStorage {
  int group = 0;
  std::byte* data = nullptr;  // page 0
  int64_t page_stride = 0;    // bytes
};
// ... and where its newest pages lie a second time. Segments of the two groups are parallel.
struct LayerStorage : GroupStorage {
  std::optional<GroupStorage> hot;
};

struct GroupUsage {
  int64_t pages_used = 0;   // by sequences, snapshots or both
  int64_t pages_owned = 0;  // of those, by sequences
  int64_t pages_held = 0;   // of those, by snapshots
  int64_t pages_total = 0;  // that sequences may own
  size_t bytes_used = 0;    // all layers of the group
};

class Store {
 public:
  // The plan must be runnable; `device` and `ops` must outlive the store. Reserves address space
  // for the whole pool; memory is taken as pages are first written. A freed page is used again
  // first; the memory above the highest page in use is given back when a sequence closes or passes
  // --quantized-kv-start.
  static Result<std::unique_ptr<Store>> create(const KvPlan& plan, kernels::Device& device,
                                               const kernels::Ops& ops);
  ~Store();

  // A new, empty sequence. Fails (runtime) when `parallel` sequences are open.
  Result<SequenceId> open();
  // A sequence with the same committed rows; pages are shared, a partly filled one copied on write.
  Result<SequenceId> fork(SequenceId from);
  void close(SequenceId sequence);

  // Snapshots: what a sequence needs to go on exactly from its present length, by reference to
  // its pages. They take no place among the sequences. The pages that snapshots hold, each counted
  // once and whoever else holds it, take plan().prefix_cache_bytes at most; pages of their own are
  // set aside for them, so that no sequence ever fails for their sake.
  // Fails (refused) beyond that budget. No step may be open.
  Result<SnapshotId> freeze(SequenceId sequence);
  void drop(SnapshotId snapshot);
  // A sequence that goes on from the first `length` rows of the snapshot; can_thaw() must agree.
  // Nothing before `length` can be rolled back. Fails (runtime) when all sequences are open.
  Result<SequenceId> thaw(SnapshotId snapshot, int64_t length);
  // Whether the snapshot holds every row that rows at and after `length` can see.
  bool can_thaw(SnapshotId snapshot, int64_t length) const;
  int64_t snapshot_length(SnapshotId snapshot) const;
  size_t freeze_bytes(SequenceId sequence) const;  // of the pages that freeze() would hold
  size_t snapshot_bytes() const;                   // of the pages that snapshots hold
  // A sequence of `length` rows whose contents are still to be written (a saved cache), with pages
  // for the rows that needed() tells. Fails (runtime): no free sequence or pages, longer than ctx.
  Result<SequenceId> restore(int64_t length);
  // Token indices of the rows in a group that rows to come can see; empty where the sequence does
  // not live. Ascending.
  std::vector<int64_t> needed(SequenceId sequence, int group) const;

  // Reserves slots for the rows of a step; a sequence appears once. On failure (runtime: no free
  // pages; longer than ctx) the store is as before. Rows must not straddle max_step_rows().
  Result<KvBatch> begin_step(std::span<const StepEntry> entries);
  // Keeps the first `rows` appended rows of the sequence's open step and drops the rest.
  // Crossing --quantized-kv-start re-encodes the sequence's rows (uses exec). Fails (runtime) when
  // that finds no free pages or a value that is not finite; the step is then dropped.
  Status commit(SequenceId sequence, int64_t rows, kernels::Exec& exec);
  // Drops the sequence's open step.
  void abort_step(SequenceId sequence);
  // Takes back the last `rows` committed rows. Fails (runtime) beyond rollback_limit().
  Status rollback(SequenceId sequence, int64_t rows);

  // Whether the next row makes a copy of a page, because another sequence shares it.
  bool shares_tail(SequenceId sequence) const;
  int64_t length(SequenceId sequence) const;          // committed rows
  int64_t rollback_limit(SequenceId sequence) const;  // rows that rollback() would accept now
  // Most rows that a step may add to the sequence now (chunk, ctx, and the cut at the quantized
  // start).
  int64_t max_step_rows(SequenceId sequence) const;

  // The storage of a layer: one entry, or two with --quantized-kv-start (f16 first). A shared layer
  // has its donor's.
  std::span<const LayerStorage> storage(int layer) const;
  // The storage in a group of a layer that the group holds.
  GroupStorage place(int layer, int group) const;
  std::vector<GroupUsage> usage() const;
  size_t bytes_used() const;
  const KvPlan& plan() const;

  // Token indices whose rows the sequence holds in a group for some row to come (those of an open
  // step included), ascending (tests, /kv).
  std::vector<int64_t> resident(SequenceId sequence, int group) const;
  // The pages that the sequence holds in a group, oldest first. Valid until the store changes.
  std::span<const kernels::PageRef> pages(SequenceId sequence, int group) const;
  // Slot of a resident token index, or -1.
  int64_t slot(SequenceId sequence, int group, int64_t index) const;

 private:
  Store();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringkeep::kv
