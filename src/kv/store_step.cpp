// Opening a step: what the rows need is counted first, so that a step that fails changes nothing.
#include <algorithm>

#include "kv/store_state.h"

namespace ringkeep::kv {

using kernels::kPageTokens;
using kernels::KvSegment;
using kernels::PageRef;

Status Store::State::check_entry(const StepEntry& entry) const {
  const Sequence& sequence = at(entry.sequence);
  RK_CHECK(entry.rows > 0 && entry.row0 >= 0, "{} rows at row {}", entry.rows, entry.row0);
  RK_CHECK(sequence.step_rows == 0, "sequence {} has an open step", entry.sequence);
  const int64_t end = sequence.length + entry.rows;
  if (entry.rows > plan.chunk)
    return make_error(ErrorKind::runtime, "sequence {}: a step of {} rows, planned for {} at most",
                      entry.sequence, entry.rows, plan.chunk);
  if (end > plan.max_length())
    return make_error(ErrorKind::runtime, "sequence {}: {} rows after {} exceed the {} of --ctx",
                      entry.sequence, entry.rows, sequence.length, plan.max_length());
  if (plan.crosses_start() && !sequence.coded && end > plan.quantized_start)
    return make_error(ErrorKind::runtime,
                      "sequence {}: {} rows after {} straddle --quantized-kv-start {}",
                      entry.sequence, entry.rows, sequence.length, plan.quantized_start);
  if (entry.span_end == nullptr) return {};
  for (int64_t i = 0; i < entry.rows; ++i)
    if (entry.span_end[i] < sequence.length + i || entry.span_end[i] >= end)
      return make_error(ErrorKind::runtime,
                        "sequence {}: the span of row {} ends at {}, outside the step's rows up to "
                        "{}; a span is not split",
                        entry.sequence, sequence.length + i, entry.span_end[i], end - 1);
  return {};
}

Status Store::State::check_room(std::span<const StepEntry> entries) const {
  for (size_t g = 0; g < groups.size(); ++g) {
    const PagePool& pool = groups[g].pool;
    int64_t needed = 0;
    std::vector<int32_t> written;  // partly filled pages that several sequences may share
    for (const StepEntry& entry : entries) {
      const Sequence& sequence = at(entry.sequence);
      if (!lives_in(sequence, groups[g])) continue;
      needed += pages_for(sequence.length + entry.rows) - pages_for(sequence.length);
      if (sequence.length % kPageTokens == 0) continue;
      RK_CHECK(!sequence.tables[g].empty() &&
               sequence.tables[g].back().logical == sequence.length / kPageTokens);
      written.push_back(sequence.tables[g].back().physical);
    }
    // Every writer of a page that sequences share copies it, the last of them apart. (One that
    // shares it with a snapshot copies it too, but leaves its own to the snapshot.)
    std::sort(written.begin(), written.end());
    for (size_t i = 0; i < written.size();) {
      const auto end = std::upper_bound(written.begin(), written.end(), written[i]);
      const int64_t writers = end - written.begin() - static_cast<int64_t>(i);
      needed += std::min<int64_t>(writers, pool.owners(written[i]) - 1);
      i += static_cast<size_t>(writers);
    }
    if (needed > pool.available())
      return make_error(ErrorKind::runtime,
                        "no free pages: cache group {} needs {} more, {} of {} "
                        "are free",
                        g, needed, pool.available(), pool.limit());
  }
  return {};
}

void Store::State::reserve(const StepEntry& entry) {
  Sequence& sequence = at(entry.sequence);
  for (size_t g = 0; g < groups.size(); ++g) {
    if (!lives_in(sequence, groups[g])) continue;
    PagePool& pool = groups[g].pool;
    PageTable& table = sequence.tables[g];
    if (sequence.length % kPageTokens != 0 && pool.shared(table.back().physical))
      table.back().physical = pool.copy(table.back().physical);
    for (int64_t p = pages_for(sequence.length); p < pages_for(sequence.length + entry.rows); ++p)
      table.push_back({static_cast<int32_t>(p), pool.take()});
  }
  sequence.step_rows = entry.rows;
}

void Store::State::fill_batch(const StepEntry& entry, KvBatch& batch) const {
  const Sequence& sequence = at(entry.sequence);
  for (size_t g = 0; g < groups.size(); ++g) {
    if (!lives_in(sequence, groups[g])) continue;
    const PageTable& table = sequence.tables[g];
    std::vector<PageRef>& pages = batch.pages.emplace_back();
    for (const PageRef& page : table)
      if (groups[g].sight.sees_page(sequence.length, page.logical)) pages.push_back(page);
    batch.groups[g].segments.push_back({.row0 = entry.row0,
                                        .rows = entry.rows,
                                        .index0 = sequence.length,
                                        .pages = pages.data(),
                                        .n_pages = static_cast<int64_t>(pages.size()),
                                        .span_end = entry.span_end});
    size_t place = static_cast<size_t>(find_page(pages, sequence.length / kPageTokens));
    for (int64_t i = 0; i < entry.rows; ++i) {
      const int64_t index = sequence.length + i;
      if (i > 0 && index % kPageTokens == 0) ++place;
      batch.groups[g].slots[static_cast<size_t>(entry.row0 + i)] =
          int64_t{pages[place].physical} * kPageTokens + index % kPageTokens;
    }
  }
}

Result<KvBatch> Store::begin_step(std::span<const StepEntry> entries) {
  State& state = *state_;
  KvBatch batch;
  for (size_t i = 0; i < entries.size(); ++i) {
    RK_TRY(state.check_entry(entries[i]));
    for (size_t j = 0; j < i; ++j)
      RK_CHECK(entries[j].sequence != entries[i].sequence, "sequence {} appears twice in a step",
               entries[i].sequence);
    batch.rows = std::max(batch.rows, entries[i].row0 + entries[i].rows);
  }
  RK_TRY(state.check_room(entries));
  batch.entries.assign(entries.begin(), entries.end());
  batch.groups.resize(state.groups.size());
  for (GroupBatch& group : batch.groups) group.slots.assign(static_cast<size_t>(batch.rows), -1);
  for (const StepEntry& entry : entries) {
    state.reserve(entry);
    state.fill_batch(entry, batch);
  }
  return batch;
}

}  // namespace ringkeep::kv
