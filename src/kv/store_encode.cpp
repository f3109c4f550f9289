// Crossing --quantized-kv-start: the f16 rows that a future row may see are read and appended to
// the quantized groups (cold and hot), layer by layer, in slabs.
#include <algorithm>
#include <array>

#include "kv/store_state.h"

namespace ringkeep::kv {
namespace {

using kernels::kPageTokens;
using kernels::KvGeometry;
using kernels::KvSegment;

constexpr int64_t kSlabRows = 256;
constexpr size_t kFlagBytes = 64;  // the non-finite flag, before the rows

int64_t slot_of(const PageTable& table, int64_t index) {
  const int64_t place = find_page(table, index / kPageTokens);
  RK_CHECK(place >= 0, "row {} is not in the cache", index);
  return int64_t{table[static_cast<size_t>(place)].physical} * kPageTokens + index % kPageTokens;
}

}  // namespace

size_t slab_bytes_of(const KvGeometry& geometry) {
  return kFlagBytes +
         static_cast<size_t>(kSlabRows) * static_cast<size_t>(geometry.kv_heads) *
             (static_cast<size_t>(geometry.k_dim) + static_cast<size_t>(geometry.v_dim)) *
             sizeof(float);
}

Status Store::State::encode_group(const Sequence& sequence, size_t from, size_t to,
                                  const PageTable& table, int64_t begin, int64_t end,
                                  kernels::Exec& exec) {
  const GroupPlan& source = plan.groups[from];
  const GroupPlan& target = plan.groups[to];
  const KvGeometry& geometry = target.geometry;
  const int64_t k_stride = int64_t{geometry.kv_heads} * geometry.k_dim;
  const int64_t v_stride = int64_t{geometry.kv_heads} * geometry.v_dim;
  auto* non_finite = slab.as<int32_t>();
  auto* k = reinterpret_cast<float*>(slab.data() + kFlagBytes);  // [slab rows, kv_heads, k_dim]
  float* v = k + kSlabRows * k_stride;                           // [slab rows, kv_heads, v_dim]

  for (size_t layer = 0; layer < target.layers.size(); ++layer) {
    int32_t bad = 0;
    exec.device().copy_in(slab.data(), &bad, sizeof(bad));
    for (int64_t first = begin; first < end; first += kSlabRows) {
      const int64_t rows = std::min(kSlabRows, end - first);
      std::array<int64_t, kSlabRows> read, written;
      for (int64_t i = 0; i < rows; ++i) {
        read[static_cast<size_t>(i)] = slot_of(sequence.tables[from], first + i);
        written[static_cast<size_t>(i)] = slot_of(table, first + i);
      }
      kernels::run(ops->kv_read,
                   kernels::KvReadParams{.geometry = source.geometry,
                                         .storage = groups[from].pool.layer_data(layer),
                                         .page_stride = static_cast<int64_t>(source.page_bytes),
                                         .slots = read.data(),
                                         .n = rows,
                                         .k = k,
                                         .v = v},
                   exec);
      const KvSegment segment{.row0 = 0,
                              .rows = rows,
                              .index0 = first,
                              .pages = table.data(),
                              .n_pages = static_cast<int64_t>(table.size())};
      kernels::run(ops->kv_append,
                   kernels::KvAppendParams{.geometry = geometry,
                                           .k = k,
                                           .v = v,
                                           .k_stride = k_stride,
                                           .v_stride = v_stride,
                                           .segments = &segment,
                                           .n_segments = 1,
                                           .slots = written.data(),
                                           .storage = groups[to].pool.layer_data(layer),
                                           .page_stride = static_cast<int64_t>(target.page_bytes),
                                           .non_finite = non_finite},
                   exec);
    }
    exec.device().copy_out(&bad, slab.data(), sizeof(bad));
    if (bad != 0)
      return make_error(ErrorKind::runtime, "layer {}: K or V holds a value that is not finite",
                        target.layers[layer]);
  }
  return {};
}

Status Store::State::encode(Sequence& sequence, int64_t rows, kernels::Exec& exec) {
  struct Move {
    size_t from;
    size_t to;
  };
  std::vector<Move> moves;
  for (size_t g = 0; g < groups.size(); ++g)
    for (const int twin : groups[g].twins) moves.push_back({g, static_cast<size_t>(twin)});

  std::vector<PageTable> tables(groups.size());
  for (const auto& [from, to] : moves) {
    const PagePool& pool = groups[to].pool;
    for (int64_t p = 0; p < pages_for(rows); ++p)
      if (groups[to].sight.sees_page(rows, p)) tables[to].push_back({static_cast<int32_t>(p), -1});
    const auto needed = static_cast<int64_t>(tables[to].size());
    if (needed > pool.available())
      return make_error(ErrorKind::runtime,
                        "no free pages: cache group {} needs {} at --quantized-kv-start, {} of {} "
                        "are free",
                        to, needed, pool.available(), pool.limit());
  }
  Status status;
  for (const auto& [from, to] : moves) {
    const Sight& sight = groups[to].sight;
    for (kernels::PageRef& page : tables[to]) page.physical = groups[to].pool.take();
    const int64_t pinned = std::min(sight.keep, rows);
    if (status.ok())
      status = encode_group(sequence, from, to, tables[to], sight.hot_start(rows), pinned, exec);
    if (status.ok())
      status = encode_group(sequence, from, to, tables[to], std::max(pinned, sight.oldest(rows)),
                            rows, exec);
    sequence.tables[to] = std::move(tables[to]);
  }
  for (const auto& [from, to] : moves) {
    drop_table(sequence, status.ok() ? from : to);
    groups[status.ok() ? from : to].pool.trim();
  }
  return status;
}

}  // namespace ringkeep::kv
