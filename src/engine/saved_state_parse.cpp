// Reading the file of a saved cache: nothing in it is believed before it is checked.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "checkpoint/json_fields.h"
#include "checkpoint/limits.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "engine/saved_state.h"
#include "kv/plan.h"

namespace ringkeep::engine {
namespace {

using checkpoint::Json;
using checkpoint::JsonFields;
using kernels::KvCodec;
using kernels::KvScheme;

constexpr int kMostTiers = 4;  // of one layer

using Tensors = std::map<std::string, const quant::SourceTensor*>;

Result<int64_t> required(const JsonFields& fields, const char* key, int64_t least, int64_t most) {
  const auto value = RK_TRY(fields.integer(key, least, most));
  if (!value) return fields.wrong(key, fmt::format("{} to {}", least, most));
  return *value;
}

// {scheme, bits, group, dim}
Result<KvCodec> read_codec(const JsonFields& layer, const char* key, int& dim) {
  const auto object = RK_TRY(layer.object(key));
  if (!object) return layer.wrong(key, "an object");
  KvCodec codec;
  const std::string scheme = RK_TRY(object->text("scheme")).value_or("");
  if (scheme == "hadamard")
    codec.scheme = KvScheme::hadamard;
  else if (scheme == "affine")
    codec.scheme = KvScheme::affine;
  else if (scheme != "f16")
    return object->wrong("scheme", "f16, hadamard or affine");
  dim = static_cast<int>(RK_TRY(required(*object, "dim", 1, checkpoint::kLargestHeadDim)));
  codec.bits = static_cast<int>(RK_TRY(required(*object, "bits", 2, 16)));
  codec.group = static_cast<int>(RK_TRY(required(*object, "group", 0, dim)));
  const bool plain = codec.scheme == KvScheme::f16, halves = codec.halves();
  if ((plain && !halves) || (!halves && codec.bits > 8) ||
      (halves && codec.scheme == KvScheme::affine))
    return object->wrong("bits", plain ? "16" : "2 to 8, or 16 for hadamard");
  if ((halves && codec.group != 0) || (codec.group > 0 && dim % codec.group != 0) ||
      (codec.scheme == KvScheme::affine && codec.group == 0))
    return object->wrong("group", "a divisor of dim");
  return codec;
}

Result<RowRanges> read_ranges(const JsonFields& layer, int64_t length, int64_t& count) {
  const Json* rows = layer.find("rows");
  if (rows == nullptr || !rows->is_array()) return layer.wrong("rows", "an array of ranges");
  RowRanges ranges;
  int64_t end = -1;
  for (const Json& range : *rows) {
    const bool numbers = range.is_array() && range.size() == 2 && range[0].is_number_unsigned() &&
                         range[1].is_number_unsigned() &&
                         range[1].get<uint64_t>() <= static_cast<uint64_t>(length) &&
                         range[0].get<uint64_t>() < range[1].get<uint64_t>();
    if (!numbers || range[0].get<int64_t>() <= end)
      return layer.wrong("rows", fmt::format("ascending ranges within the {} tokens", length));
    ranges.emplace_back(range[0].get<int64_t>(), range[1].get<int64_t>());
    end = ranges.back().second;
    count += end - ranges.back().first;
  }
  return ranges;
}

bool all_finite(const quant::SourceTensor& halves) {
  for (size_t at = 0; at + 2 <= halves.bytes; at += 2) {
    uint16_t half;
    std::memcpy(&half, halves.data + at, sizeof(half));
    if ((half & 0x7c00) == 0x7c00) return false;
  }
  return true;
}

// Takes the tensor out of the table.
Result<HostField> take_field(Tensors& tensors, const std::string& file, const std::string& name,
                             const char* type, std::vector<int64_t> shape) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) return input_error("{}: it has no tensor {}", file, name);
  const quant::SourceTensor& tensor = *found->second;
  if (tensor.type_name != type || tensor.shape != shape)
    return input_error("{}: {}: {} [{}], expected {} [{}]", file, name, tensor.type_name,
                       fmt::join(tensor.shape, ", "), type, fmt::join(shape, ", "));
  if (tensor.type_name == "F16" && !all_finite(tensor))
    return input_error("{}: {}: a value is not finite", file, name);
  tensors.erase(found);
  return HostField{tensor.data, tensor.bytes};
}

Result<HostPlane> take_plane(Tensors& tensors, const std::string& file, const std::string& prefix,
                             const KvCodec& codec, int dim, int64_t heads, int64_t rows) {
  const auto bytes = kernels::kv_row_bytes(codec, dim);
  const auto half = [&](const char* field, size_t row_bytes) -> Result<HostField> {
    if (row_bytes == 0) return HostField{};
    return take_field(tensors, file, prefix + field, "F16",
                      {heads, rows, static_cast<int64_t>(row_bytes / 2)});
  };
  if (codec.halves()) return HostPlane{RK_TRY(half("values", bytes.codes)), {}, {}};
  HostPlane plane;
  plane.codes = RK_TRY(take_field(tensors, file, prefix + "codes", "U8",
                                  {heads, rows, static_cast<int64_t>(bytes.codes)}));
  plane.scales = RK_TRY(half("scales", bytes.scales));
  plane.biases = RK_TRY(half("biases", bytes.biases));
  return plane;
}

Result<SavedRows> read_layer(const Json& json, const std::string& file, int64_t length,
                             Tensors& tensors) {
  const JsonFields fields(json, fmt::format("{}: layers", file));
  SavedRows rows;
  rows.layer = static_cast<int>(RK_TRY(required(fields, "layer", 0, checkpoint::kMostLayers - 1)));
  rows.tier = RK_TRY(fields.text("tier")).value_or("");
  if (rows.tier.empty() || rows.tier.size() > 16) return fields.wrong("tier", "a short name");
  auto& g = rows.geometry;
  g.kv_heads = static_cast<int>(RK_TRY(required(fields, "kv_heads", 1, checkpoint::kMostHeads)));
  g.k = RK_TRY(read_codec(fields, "k", g.k_dim));
  g.v = RK_TRY(read_codec(fields, "v", g.v_dim));
  int64_t count = 0;
  rows.ranges = RK_TRY(read_ranges(fields, length, count));
  if (count == 0) return fields.wrong("rows", "one row or more");
  const std::string prefix = fmt::format("layers.{}.{}.", rows.layer, rows.tier);
  rows.rows.k = RK_TRY(take_plane(tensors, file, prefix + "k.", g.k, g.k_dim, g.kv_heads, count));
  rows.rows.v = RK_TRY(take_plane(tensors, file, prefix + "v.", g.v, g.v_dim, g.kv_heads, count));
  return rows;
}

}  // namespace

bool is_saved_state(const std::map<std::string, std::string>& metadata) {
  return metadata.contains(kSavedVersionKey);
}

Result<SavedState> parse_saved_state(std::span<const std::byte> bytes, const std::string& name) {
  const auto file = RK_TRY(checkpoint::parse_safetensors(bytes, name));
  const auto version = file.metadata.find(kSavedVersionKey);
  if (version == file.metadata.end())
    return input_error("{}: not a saved cache: its metadata has no {}", name, kSavedVersionKey);
  if (version->second != kSavedVersion)
    return input_error("{}: version {} of the format of saved caches, this program reads {}", name,
                       version->second.substr(0, 40), kSavedVersion);
  Tensors tensors;
  for (const quant::SourceTensor& tensor : file.tensors) tensors[tensor.name] = &tensor;
  SavedState state;
  for (const auto& [key, value] : file.metadata)
    if (key != kSavedVersionKey && key != checkpoint::kChecksumKey && key != "layers")
      state.fingerprint.emplace_back(key, value);

  const auto tokens = tensors.find("tokens");
  if (tokens == tensors.end() || tokens->second->type_name != "I32" ||
      tokens->second->shape.size() != 1 || tokens->second->shape[0] > kv::kMaxIndices)
    return input_error("{}: tokens: expected a tensor of I32 ids in one dimension", name);
  state.tokens.resize(static_cast<size_t>(tokens->second->shape[0]));
  std::memcpy(state.tokens.data(), tokens->second->data, tokens->second->bytes);
  tensors.erase(tokens);

  const auto layers = file.metadata.find("layers");
  if (layers == file.metadata.end()) return input_error("{}: its metadata has no layers", name);
  const Json json = RK_TRY(checkpoint::parse_json(layers->second, name + ": layers"));
  if (!json.is_array() || json.size() > checkpoint::kMostLayers * kMostTiers)
    return input_error("{}: layers: expected an array of layers", name);
  for (const Json& layer : json)
    state.layers.push_back(
        RK_TRY(read_layer(layer, name, static_cast<int64_t>(state.tokens.size()), tensors)));
  if (!tensors.empty())
    return input_error("{}: {}: no layer has such a tensor", name, tensors.begin()->first);
  return state;
}

Status check_saved_state_sum(std::span<const std::byte> bytes, const std::string& name) {
  const auto file = RK_TRY(checkpoint::parse_safetensors(bytes, name));
  return checkpoint::check_safetensors_sum(bytes, file.metadata, name);
}

}  // namespace ringkeep::engine
