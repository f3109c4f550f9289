#include "engine/saved_state.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/safetensors_writer.h"

namespace ringkeep::engine {
namespace {

using kernels::KvCodec;
using kernels::KvGeometry;
using kernels::KvScheme;
using Json = nlohmann::ordered_json;

const char* scheme_name(KvScheme scheme) {
  switch (scheme) {
    case KvScheme::f16: return "f16";
    case KvScheme::hadamard: return "hadamard";
    case KvScheme::affine: return "affine";
  }
  return "";
}

Json codec_json(const KvCodec& codec, int dim) {
  return Json{{"scheme", scheme_name(codec.scheme)},
              {"bits", codec.bits},
              {"group", codec.group},
              {"dim", dim}};
}

std::string prefix_of(int layer, const std::string& tier) {
  return fmt::format("layers.{}.{}.", layer, tier);
}

// The tensors of one plane, in file order.
void add_entries(std::vector<checkpoint::SafetensorsEntry>& entries, const std::string& prefix,
                 const KvCodec& codec, int dim, int64_t heads, int64_t rows) {
  const auto bytes = kernels::kv_row_bytes(codec, dim);
  const auto add = [&](const char* field, const char* type, size_t element, size_t row_bytes) {
    if (row_bytes > 0)
      entries.push_back({prefix + field,
                         type,
                         {heads, rows, static_cast<int64_t>(row_bytes / element)},
                         static_cast<size_t>(heads * rows) * row_bytes});
  };
  if (codec.halves()) return add("values", "F16", 2, bytes.codes);
  add("codes", "U8", 1, bytes.codes);
  add("scales", "F16", 2, bytes.scales);
  add("biases", "F16", 2, bytes.biases);
}

std::string codec_text(const KvCodec& codec) {
  return kernels::describe(codec) + (codec.halves() && codec.rotated() ? " rotated" : "");
}

// A layer's rows in one group of the store.
struct Part {
  int layer;
  int group;
  const std::vector<int64_t>* indices;
};

// What is to be saved of a sequence, by layer.
std::vector<Part> parts_of(const kv::Store& store,
                           const std::vector<std::vector<int64_t>>& indices) {
  std::vector<Part> parts;
  const auto& groups = store.plan().groups;
  for (size_t g = 0; g < groups.size(); ++g)
    for (const int layer : groups[g].layers)
      if (!indices[g].empty()) parts.push_back({layer, static_cast<int>(g), &indices[g]});
  std::ranges::stable_sort(parts, {}, &Part::layer);
  return parts;
}

std::vector<std::vector<int64_t>> needed_rows(const kv::Store& store, kv::SequenceId sequence) {
  std::vector<std::vector<int64_t>> indices;
  for (size_t g = 0; g < store.plan().groups.size(); ++g)
    indices.push_back(store.needed(sequence, static_cast<int>(g)));
  return indices;
}

template <typename Value>
Status expect_equal(const std::string& where, const char* what, const Value& expected,
                    const Value& found) {
  if (expected == found) return {};
  return make_error(ErrorKind::refused, "{}: {}: this run has {}, the file has {}", where, what,
                    expected, found);
}

// What the file's rows of a layer are, and what this run's would be.
Status check_geometry(const std::string& where, const KvGeometry& have, const KvGeometry& file) {
  RK_TRY(expect_equal(where, "KV heads", have.kv_heads, file.kv_heads));
  RK_TRY(expect_equal(where, "K channels", have.k_dim, file.k_dim));
  RK_TRY(expect_equal(where, "V channels", have.v_dim, file.v_dim));
  RK_TRY(expect_equal(where, "codec of K (--kv-bits)", codec_text(have.k), codec_text(file.k)));
  return expect_equal(where, "codec of V (--kv-bits)", codec_text(have.v), codec_text(file.v));
}

Status check_codecs(const kv::KvPlan& plan, const SavedState& state, const std::string& name) {
  for (const kv::GroupPlan& group : plan.groups)
    for (const SavedRows& rows : state.layers)
      if (rows.tier == tier_name(group) && std::ranges::count(group.layers, rows.layer) > 0)
        RK_TRY(check_geometry(fmt::format("{}: layer {}", name, rows.layer), group.geometry,
                              rows.geometry));
  return {};
}

}  // namespace

Status write_saved_state(CacheAccess access, kv::SequenceId sequence,
                         std::span<const int32_t> tokens, const Fingerprint& fingerprint,
                         const std::string& path) {
  const kv::KvPlan& plan = access.store.plan();
  const auto indices = needed_rows(access.store, sequence);
  const auto parts = parts_of(access.store, indices);

  std::vector<checkpoint::SafetensorsEntry> entries = {
      {"tokens", "I32", {static_cast<int64_t>(tokens.size())}, tokens.size_bytes()}};
  Json layers = Json::array();
  for (const Part& part : parts) {
    const kv::GroupPlan& group = plan.groups[static_cast<size_t>(part.group)];
    const KvGeometry& g = group.geometry;
    const std::string prefix = prefix_of(part.layer, tier_name(group));
    const auto rows = static_cast<int64_t>(part.indices->size());
    add_entries(entries, prefix + "k.", g.k, g.k_dim, g.kv_heads, rows);
    add_entries(entries, prefix + "v.", g.v, g.v_dim, g.kv_heads, rows);
    layers.push_back(Json{{"layer", part.layer},
                          {"tier", tier_name(group)},
                          {"kv_heads", g.kv_heads},
                          {"k", codec_json(g.k, g.k_dim)},
                          {"v", codec_json(g.v, g.v_dim)},
                          {"rows", ranges_of(*part.indices)}});
  }
  std::map<std::string, std::string> metadata(fingerprint.begin(), fingerprint.end());
  metadata.insert_or_assign(kSavedVersionKey, std::string(kSavedVersion));
  metadata["layers"] = layers.dump();

  auto writer = RK_TRY(checkpoint::SafetensorsWriter::create(path, std::move(metadata), entries));
  RK_TRY(writer.write(std::as_bytes(tokens)));
  for (const Part& part : parts)
    RK_TRY(writer.write(RK_TRY(access.read(sequence, part.group, part.layer, *part.indices))));
  return writer.finish();
}

Result<kv::SequenceId> restore_saved_state(CacheAccess access, const SavedState& state,
                                           const Fingerprint& expected, const std::string& name) {
  const kv::KvPlan& plan = access.store.plan();
  for (const auto& [field, value] : expected) {
    // The balance depends on the codecs: where those differ, they are what the user knows.
    if (field == "balance") RK_TRY(check_codecs(plan, state, name));
    const auto found = std::ranges::find(
        state.fingerprint, field, [](const auto& f) -> auto& { return f.first; });
    RK_TRY(expect_equal(
        name, field == "balance" ? "balance of K (--kv-calibration)" : field.c_str(), value,
        found == state.fingerprint.end() ? std::string("no such field") : found->second));
  }
  const auto length = static_cast<int64_t>(state.tokens.size());
  if (length > plan.max_length())
    return make_error(ErrorKind::refused, "{}: it holds {} tokens, the context (--ctx) {}", name,
                      length, plan.max_length());
  const kv::SequenceId sequence = RK_TRY(access.store.restore(length));
  const auto fill = [&]() -> Status {
    const auto indices = needed_rows(access.store, sequence);
    std::map<std::pair<int, std::string>, const SavedRows*> saved;
    for (const SavedRows& rows : state.layers) saved[{rows.layer, rows.tier}] = &rows;
    for (const Part& part : parts_of(access.store, indices)) {
      const kv::GroupPlan& group = plan.groups[static_cast<size_t>(part.group)];
      const std::string where = fmt::format("{}: layer {}", name, part.layer);
      const auto found = saved.find({part.layer, tier_name(group)});
      if (found == saved.end())
        return make_error(ErrorKind::refused, "{}: this run has {} of it, the file has none", where,
                          tier_name(group));
      const SavedRows& rows = *found->second;
      RK_TRY(check_geometry(where, group.geometry, rows.geometry));
      RK_TRY(expect_equal(where, "tokens in sight", describe(ranges_of(*part.indices)),
                          describe(rows.ranges)));
      RK_TRY(access.write(sequence, part.group, part.layer, *part.indices, rows.rows));
      saved.erase(found);
    }
    if (!saved.empty())
      return make_error(ErrorKind::refused, "{}: layer {}: the file has {} of it, this run none",
                        name, saved.begin()->first.first, saved.begin()->first.second);
    return {};
  };
  if (Status status = fill(); !status.ok()) {
    access.store.close(sequence);
    return std::move(status).error();
  }
  return sequence;
}

}  // namespace ringkeep::engine
