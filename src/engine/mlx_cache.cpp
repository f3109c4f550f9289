#include "engine/mlx_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/dtype.h"
#include "kv/codec_flags.h"

namespace ringkeep::engine {
namespace {

using kernels::KvScheme;
using quant::SourceType;

// A stored number as half precision; false when it does not fit.
bool to_half(const quant::SourceTensor& tensor, size_t index, uint16_t& half) {
  if (tensor.type == SourceType::f32) {
    float value;
    std::memcpy(&value, tensor.data + 4 * index, sizeof(value));
    half = float_to_f16(value);
  } else {
    std::memcpy(&half, tensor.data + 2 * index, sizeof(half));
    if (tensor.type == SourceType::bf16) half = float_to_f16(bf16_to_float(half));
  }
  return (half & 0x7c00) != 0x7c00;
}

// The rows of a plane in canonical form, in memory of its own.
struct CanonicalPlane {
  std::vector<std::byte> codes, scales, biases;
  HostPlane view() const {
    return {{codes.data(), codes.size()},
            {scales.data(), scales.size()},
            {biases.data(), biases.size()}};
  }
};

// Halves of the physical rows of every head: [kv_heads, rows.size(), last extent].
Result<std::vector<std::byte>> halves(const quant::SourceTensor& tensor, int64_t heads,
                                      std::span<const int64_t> rows, const std::string& where) {
  const auto width = static_cast<size_t>(tensor.shape.back());
  const auto stored = static_cast<size_t>(tensor.shape[2]);
  std::vector<std::byte> out(static_cast<size_t>(heads) * rows.size() * width * 2);
  std::byte* to = out.data();
  for (size_t head = 0; head < static_cast<size_t>(heads); ++head)
    for (const int64_t row : rows)
      for (size_t i = 0; i < width; ++i, to += 2) {
        uint16_t half = 0;
        if (!to_half(tensor, (head * stored + static_cast<size_t>(row)) * width + i, half))
          return input_error("{}: a value is not finite in half precision", where);
        std::memcpy(to, &half, sizeof(half));
      }
  return out;
}

// MLX packs codes low bits first into little-endian words: the bytes are the canonical bit stream.
std::vector<std::byte> codes(const quant::SourceTensor& tensor, int64_t heads,
                             std::span<const int64_t> rows) {
  const size_t width = static_cast<size_t>(tensor.shape.back()) * 4;
  const auto stored = static_cast<size_t>(tensor.shape[2]);
  std::vector<std::byte> out(static_cast<size_t>(heads) * rows.size() * width);
  std::byte* to = out.data();
  for (size_t head = 0; head < static_cast<size_t>(heads); ++head)
    for (const int64_t row : rows) {
      std::memcpy(to, tensor.data + (head * stored + static_cast<size_t>(row)) * width, width);
      to += width;
    }
  return out;
}

Result<CanonicalPlane> plane_of(const quant::SourceTensor (&arrays)[3], const MlxLayer& layer,
                                std::span<const int64_t> rows, const std::string& where) {
  const int64_t heads = layer.geometry.kv_heads;
  CanonicalPlane plane;
  if (layer.geometry.k.scheme == KvScheme::f16) {
    plane.codes = RK_TRY(halves(arrays[0], heads, rows, where));
    return plane;
  }
  plane.codes = codes(arrays[0], heads, rows);
  plane.scales = RK_TRY(halves(arrays[1], heads, rows, where));
  plane.biases = RK_TRY(halves(arrays[2], heads, rows, where));
  return plane;
}

Status fill(CacheAccess access, kv::SequenceId sequence, const MlxLayer& layer,
            const kv::LayerPlan& planned, const std::string& where) {
  const auto& groups = access.store.plan().groups;
  for (const kv::LayerStorage& place : access.store.storage(planned.index)) {
    const std::vector<int64_t> indices = access.store.needed(sequence, place.group);
    if (indices.empty()) continue;  // it does not live there
    const kernels::KvGeometry& have = groups[static_cast<size_t>(place.group)].geometry;
    const auto codec = [](const kernels::KvGeometry& g) {
      return kv::codec_name({.k = g.k, .v = g.v});
    };
    if (have != layer.geometry)
      return make_error(
          ErrorKind::refused,
          "{} is a {} of {} KV heads, K {} and V {} channels, {}; this run has {}, {} and {}, {} "
          "(--kv-bits)",
          where, layer.cache_class, layer.geometry.kv_heads, layer.geometry.k_dim,
          layer.geometry.v_dim, codec(layer.geometry), have.kv_heads, have.k_dim, have.v_dim,
          codec(have));
    std::map<int64_t, int64_t> row_of;  // token index -> physical row
    for (size_t row = 0; row < layer.token_of.size(); ++row)
      if (layer.token_of[row] >= 0) row_of[layer.token_of[row]] = static_cast<int64_t>(row);
    std::vector<int64_t> rows;
    for (const int64_t index : indices) {
      const auto found = row_of.find(index);
      if (found == row_of.end())
        return make_error(ErrorKind::refused,
                          "{} no longer holds token {}, which this run's window of it still sees",
                          where, index);
      rows.push_back(found->second);
    }
    const CanonicalPlane k = RK_TRY(plane_of(layer.k, layer, rows, where + " keys"));
    const CanonicalPlane v = RK_TRY(plane_of(layer.v, layer, rows, where + " values"));
    RK_TRY(access.write(sequence, place.group, planned.index, indices, {k.view(), v.view()}));
  }
  return {};
}

}  // namespace

Status check_mlx_keys(const ModelConfig& config, int64_t length, const std::string& name) {
  if (config.family == "cohere2" || config.family == "llama4")
    return make_error(ErrorKind::refused,
                      "{}: mlx-lm's keys of {} pair channels 2i and 2i + 1, this program's i and "
                      "i + half of the head",
                      name, config.family);
  for (const LayerSpec& layer : config.layers)
    if (layer.rope.scaling == RopeSpec::Scaling::longrope && length <= layer.rope.original_context)
      return make_error(ErrorKind::refused,
                        "{}: mlx-lm's keys are turned by the long RoPE factors, this program uses "
                        "those only beyond {} tokens (--ctx)",
                        name, layer.rope.original_context);
  return {};
}

Result<kv::SequenceId> restore_mlx_cache(CacheAccess access, const MlxCache& cache,
                                         const std::string& name) {
  const kv::KvPlan& plan = access.store.plan();
  std::vector<const kv::LayerPlan*> own;  // layers with a cache of their own
  for (const kv::LayerPlan& layer : plan.layers)
    if (layer.cache != kv::CacheClass::shared) own.push_back(&layer);
  if (own.size() != cache.layers.size())
    return make_error(ErrorKind::refused, "{}: caches of {} layers, the model has {}", name,
                      cache.layers.size(), own.size());
  if (cache.length > plan.max_length())
    return make_error(ErrorKind::refused, "{}: it holds {} tokens, the context (--ctx) {}", name,
                      cache.length, plan.max_length());
  const kv::SequenceId sequence = RK_TRY(access.store.restore(cache.length));
  Status status;
  for (size_t i = 0; i < own.size() && status.ok(); ++i)
    status = fill(access, sequence, cache.layers[i], *own[i],
                  fmt::format("{}: layer {}", name, own[i]->index));
  if (status.ok()) return sequence;
  access.store.close(sequence);
  return std::move(status).error();
}

}  // namespace ringkeep::engine
