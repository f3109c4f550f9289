// What a Store holds. Private to the room.
#pragma once

#include <vector>

#include "kv/page_pool.h"
#include "kv/sight.h"
#include "kv/store.h"

namespace ringkeep::kv {

using PageTable =
    std::vector<kernels::PageRef>;  // ascending logical page; gaps where rows are gone

struct Sequence {
  bool open = false;
  int64_t length = 0;             // committed rows
  int64_t floor = 0;              // no rollback goes below this length; rows it cannot see are gone
  int64_t step_rows = 0;          // of the open step; 0: none is open
  bool coded = false;             // past --quantized-kv-start: lives in the quantized groups
  std::vector<PageTable> tables;  // [groups]; of groups it does not live in: empty
};

// Which sequences live in a group.
enum class Tenancy : uint8_t { always, before_start, after_start };

struct Group {
  Sight sight;
  Tenancy tenancy = Tenancy::always;
  std::vector<int> twins;  // of a before_start group: the quantized groups of the same layers
  PagePool pool;
};

struct Store::State {
  KvPlan plan;
  const kernels::Ops* ops = nullptr;
  std::vector<Group> groups;
  std::vector<Sequence> sequences;                 // [parallel]
  std::vector<std::vector<LayerStorage>> storage;  // [model layers]
  kernels::DeviceBuffer slab;                      // float rows on their way from f16 to codes

  Sequence& at(SequenceId id);
  const Sequence& at(SequenceId id) const;
  bool lives_in(const Sequence& sequence, const Group& group) const;
  bool reaches_start(const Sequence& sequence, int64_t rows) const;

  Status check_entry(const StepEntry& entry) const;
  // The pages that the entries need beyond those held, against the free ones of each group.
  Status check_room(std::span<const StepEntry> entries) const;
  void reserve(const StepEntry& entry);
  void fill_batch(const StepEntry& entry, KvBatch& batch) const;

  void drop_tail(Sequence& sequence);    // pages at and after its length
  void drop_unseen(Sequence& sequence);  // pages out of sight of its floor
  void drop_table(Sequence& sequence, size_t group);

  // Encodes the first `rows` rows (all before --quantized-kv-start, and that many) into the
  // quantized groups. On failure the store is as before.
  Status encode(Sequence& sequence, int64_t rows, kernels::Exec& exec);
  // Rows [begin, end) from one group to the pages of `table` in another.
  Status encode_group(const Sequence& sequence, size_t from, size_t to, const PageTable& table,
                      int64_t begin, int64_t end, kernels::Exec& exec);
};

// Float rows of a slab of that geometry, for every step of the encoding.
size_t slab_bytes_of(const kernels::KvGeometry& geometry);
// Index of a logical page in a table, or -1.
int64_t find_page(const PageTable& table, int64_t logical);

}  // namespace ringkeep::kv
