#include "engine/cache_rows.h"

#include <algorithm>

namespace ringkeep::engine {
namespace {

// Where the fields of n rows of a layer lie in one buffer.
struct Fields {
  Fields(const kernels::KvGeometry& geometry, size_t n) {
    const size_t rows = n * static_cast<size_t>(geometry.kv_heads);
    size_t at = 0;
    const auto place = [&](Field& field, size_t row_bytes) {
      field = {at, rows * row_bytes};
      at += field.bytes;
    };
    const auto k = kernels::kv_row_bytes(geometry.k, geometry.k_dim);
    const auto v = kernels::kv_row_bytes(geometry.v, geometry.v_dim);
    place(all[0], k.codes), place(all[1], k.scales), place(all[2], k.biases);
    place(all[3], v.codes), place(all[4], v.scales), place(all[5], v.biases);
    bytes = at;
  }
  struct Field {
    size_t at = 0;
    size_t bytes = 0;
  };
  Field all[6];
  size_t bytes = 0;
};

std::vector<int64_t> slots_of(const kv::Store& store, kv::SequenceId sequence, int group,
                              std::span<const int64_t> indices) {
  std::vector<int64_t> slots;
  for (const int64_t index : indices) {
    slots.push_back(store.slot(sequence, group, index));
    RK_CHECK(slots.back() >= 0, "row {} is not in group {}", index, group);
  }
  return slots;
}

kernels::KvRowsParams params(const CacheAccess& access, int group, int layer,
                             std::span<const int64_t> slots, const Fields& fields,
                             std::byte* buffer) {
  kernels::KvRowsParams p;
  p.geometry = access.store.plan().groups[static_cast<size_t>(group)].geometry;
  const kv::LayerStorage place = access.store.place(layer, group);
  p.storage = place.data;
  p.page_stride = place.page_stride;
  p.slots = slots.data();
  p.n = static_cast<int64_t>(slots.size());
  const auto at = [&](int i) { return buffer + fields.all[i].at; };
  p.k = {at(0), at(1), at(2)};
  p.v = {at(3), at(4), at(5)};
  return p;
}

}  // namespace

RowRanges ranges_of(std::span<const int64_t> indices) {
  RowRanges ranges;
  for (const int64_t index : indices)
    if (!ranges.empty() && ranges.back().second == index)
      ++ranges.back().second;
    else
      ranges.emplace_back(index, index + 1);
  return ranges;
}

std::string describe(const RowRanges& ranges) {
  std::string text;
  for (const auto& [first, end] : ranges)
    text += fmt::format("{}{}-{}", text.empty() ? "" : ", ", first, end - 1);
  return text.empty() ? "none" : text;
}

const char* tier_name(const kv::GroupPlan& group) {
  if (group.before_start) return "start";
  return group.hot ? "hot" : "rows";
}

Result<std::vector<std::byte>> CacheAccess::read(kv::SequenceId sequence, int group, int layer,
                                                 std::span<const int64_t> indices) {
  const auto slots = slots_of(store, sequence, group, indices);
  const Fields fields(store.plan().groups[static_cast<size_t>(group)].geometry, slots.size());
  auto buffer = RK_TRY(exec.device().allocate(fields.bytes));
  ops.kv_export(params(*this, group, layer, slots, fields, buffer.data()), exec);
  std::vector<std::byte> bytes(fields.bytes);
  exec.device().copy_out(bytes.data(), buffer.data(), bytes.size());
  return bytes;
}

Status CacheAccess::write(kv::SequenceId sequence, int group, int layer,
                          std::span<const int64_t> indices, const HostRows& rows) {
  const auto slots = slots_of(store, sequence, group, indices);
  const Fields fields(store.plan().groups[static_cast<size_t>(group)].geometry, slots.size());
  auto buffer = RK_TRY(exec.device().allocate(fields.bytes));
  const HostField* given[6] = {&rows.k.codes, &rows.k.scales, &rows.k.biases,
                               &rows.v.codes, &rows.v.scales, &rows.v.biases};
  for (int i = 0; i < 6; ++i) {
    RK_CHECK(given[i]->bytes == fields.all[i].bytes, "field {}: {} bytes, expected {}", i,
             given[i]->bytes, fields.all[i].bytes);
    if (fields.all[i].bytes > 0)
      exec.device().copy_in(buffer.data() + fields.all[i].at, given[i]->data, given[i]->bytes);
  }
  ops.kv_import(params(*this, group, layer, slots, fields, buffer.data()), exec);
  exec.device().sync();
  return {};
}

}  // namespace ringkeep::engine
