// The files of mlx-lm's save_prompt_cache. Its tree_flatten names things by their place in nested
// lists. As of 0.32: metadata "0.*" the user's, "1.i" class names, "2.*" which arrays stand for
// plain numbers; an array or number of layer i is "i.*". Older ones (0.26): metadata "0.i.*" the
// numbers as text, "1.*" the user's, "2.i" class names.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "checkpoint/limits.h"
#include "checkpoint/safetensors.h"
#include "engine/mlx_cache.h"
#include "kv/plan.h"

namespace ringkeep::engine {
namespace {

using kernels::KvCodec;
using kernels::KvScheme;
using quant::SourceTensor;
using quant::SourceType;

using Metadata = std::map<std::string, std::string>;

const std::string* find(const Metadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : &found->second;
}

// Whether the numbers stand in the metadata, as older versions of mlx-lm write them.
bool is_old(const Metadata& metadata) {
  const std::string* first = find(metadata, "2.0");
  return first != nullptr && first->ends_with("Cache");
}

class Reader {
 public:
  Reader(const checkpoint::SafetensorsFile& file, const std::string& name)
      : file_(file), name_(name), old_(is_old(file.metadata)) {
    for (const SourceTensor& tensor : file.tensors) tensors_[tensor.name] = &tensor;
  }

  Result<MlxCache> read() {
    MlxCache cache;
    for (int64_t i = 0;; ++i) {
      const std::string* name = find(file_.metadata, fmt::format("{}.{}", old_ ? 2 : 1, i));
      if (name == nullptr) break;
      if (i == checkpoint::kMostLayers)
        return input_error("{}: more than {} layers", name_, checkpoint::kMostLayers);
      where_ = fmt::format("{}: layer {} ({})", name_, i, name->substr(0, 40));
      layer_ = i;
      int64_t offset = 0;
      cache.layers.push_back(RK_TRY(read_layer(*name, offset)));
      if (i > 0 && offset != cache.length)
        return input_error("{}: {} tokens, the layers before it {}", where_, offset, cache.length);
      cache.length = offset;
    }
    return cache;
  }

 private:
  // The number at `place` of the layer's state; in old files at `old_place` of its meta_state.
  Result<int64_t> number(int place, int old_place) const {
    if (old_) {
      const std::string* text = find(file_.metadata, fmt::format("0.{}.{}", layer_, old_place));
      int64_t value = 0;
      if (text == nullptr) return input_error("{}: number {} is missing", where_, old_place);
      const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), value);
      if (code != std::errc() || end != text->data() + text->size() || !in_range(value))
        return input_error("{}: number {} is \"{}\"", where_, old_place, text->substr(0, 40));
      return value;
    }
    const auto found = tensors_.find(fmt::format("{}.{}", layer_, place));
    if (found == tensors_.end()) return input_error("{}: number {} is missing", where_, place);
    const SourceTensor& tensor = *found->second;
    int64_t value = -1;
    if (tensor.type_name == "I32" && tensor.bytes == 4) {
      int32_t narrow;
      std::memcpy(&narrow, tensor.data, sizeof(narrow));
      value = narrow;
    } else if (tensor.type_name == "I64" && tensor.bytes == 8) {
      std::memcpy(&value, tensor.data, sizeof(value));
    }
    if (!in_range(value))
      return input_error("{}: number {}: expected one integer of 0 or more", where_, place);
    return value;
  }
  static bool in_range(int64_t value) { return value >= 0 && value <= kv::kMaxIndices; }

  Result<SourceTensor> array(const std::string& place) const {
    const auto found = tensors_.find(fmt::format("{}.{}", layer_, place));
    if (found == tensors_.end()) return input_error("{}: array {} is missing", where_, place);
    const SourceTensor& tensor = *found->second;
    if (tensor.shape.size() != 4 || tensor.shape[0] != 1)
      return input_error("{}: array {}: shape [{}], expected [1, KV heads, tokens, channels]",
                         where_, place, fmt::join(tensor.shape, ", "));
    return tensor;
  }

  Status expect_float(const SourceTensor& tensor) const {
    if (tensor.type == SourceType::f16 || tensor.type == SourceType::bf16 ||
        tensor.type == SourceType::f32)
      return {};
    return input_error("{}: array {} is {}, expected F16, BF16 or F32", where_, tensor.name,
                       tensor.type_name);
  }

  Result<MlxLayer> read_layer(const std::string& cache_class, int64_t& offset) const {
    MlxLayer layer;
    layer.cache_class = cache_class;
    const bool quantized = cache_class == "QuantizedKVCache";
    const bool rotating = cache_class == "RotatingKVCache";
    if (!quantized && !rotating && cache_class != "KVCache")
      return input_error(
          "{}: expected KVCache, RotatingKVCache or QuantizedKVCache; other classes cannot be read",
          where_);
    RK_TRY(quantized ? read_quantized(layer) : read_plain(layer));
    int64_t keep = 0, next = 0;
    if (rotating) {
      const int step = old_numbers() == 5 ? 1 : 0;  // old: keep, size, (step,) offset, next
      offset = RK_TRY(number(2, 2 + step));
      keep = RK_TRY(number(3, 0));
      next = RK_TRY(number(5, 3 + step));
    } else if (quantized) {
      offset = RK_TRY(number(2, first_quantized_number()));
    } else {
      offset = old_ ? layer.rows : RK_TRY(number(2, 0));
    }
    if (offset < 1) return input_error("{}: it holds no tokens", where_);
    return place_tokens(std::move(layer), rotating, offset, keep, next);
  }

  Status read_plain(MlxLayer& layer) const {
    layer.k[0] = RK_TRY(array("0"));
    layer.v[0] = RK_TRY(array("1"));
    RK_TRY(expect_float(layer.k[0]));
    RK_TRY(expect_float(layer.v[0]));
    layer.type_name = layer.k[0].type_name;
    return settle(layer, KvCodec{}, layer.k[0].shape[3], layer.v[0].shape[3]);
  }

  int old_numbers() const {
    int count = 0;
    while (count < 8 && find(file_.metadata, fmt::format("0.{}.{}", layer_, count)) != nullptr)
      ++count;
    return count;
  }
  // Old files say (step,) offset, group size, bits.
  int first_quantized_number() const { return old_numbers() == 4 ? 1 : 0; }

  Status read_quantized(MlxLayer& layer) const {
    const int first = first_quantized_number();
    const int64_t group = RK_TRY(number(3, first + 1));
    const int64_t bits = RK_TRY(number(4, first + 2));
    if (bits < 2 || bits > 8 || group < 1 || group > checkpoint::kLargestHeadDim)
      return input_error("{}: {} bits in groups of {}", where_, bits, group);
    const char* const names[] = {"0", "1"};
    int64_t dims[2] = {};
    for (int half = 0; half < 2; ++half) {
      SourceTensor* arrays = half == 0 ? layer.k : layer.v;
      for (int i = 0; i < 3; ++i) arrays[i] = RK_TRY(array(fmt::format("{}.{}", names[half], i)));
      const SourceTensor &codes = arrays[0], &scales = arrays[1], &biases = arrays[2];
      RK_TRY(expect_float(scales));
      RK_TRY(expect_float(biases));
      if (scales.shape[3] > checkpoint::kLargestHeadDim / group)
        return input_error("{}: array {}: {} groups of {}", where_, scales.name, scales.shape[3],
                           group);
      dims[half] = scales.shape[3] * group;
      const bool fits = codes.type_name == "U32" && codes.shape[3] * 32 == dims[half] * bits &&
                        scales.shape == biases.shape && codes.shape[1] == scales.shape[1] &&
                        codes.shape[2] == scales.shape[2];
      if (!fits)
        return input_error(
            "{}: arrays {}.*: codes [{}] of {}, scales [{}], biases [{}] do not "
            "make {} bits in groups of {}",
            where_, codes.name.substr(0, codes.name.rfind('.')), fmt::join(codes.shape, ", "),
            codes.type_name, fmt::join(scales.shape, ", "), fmt::join(biases.shape, ", "), bits,
            group);
    }
    layer.type_name = layer.k[1].type_name;
    return settle(layer, KvCodec{KvScheme::affine, static_cast<int>(bits), static_cast<int>(group)},
                  dims[0], dims[1]);
  }

  Status settle(MlxLayer& layer, const KvCodec& codec, int64_t k_dim, int64_t v_dim) const {
    const auto &k = layer.k[0].shape, &v = layer.v[0].shape;
    if (k[1] != v[1] || k[2] != v[2])
      return input_error("{}: keys [{}] and values [{}] differ", where_, fmt::join(k, ", "),
                         fmt::join(v, ", "));
    if (k[1] > checkpoint::kMostHeads || k_dim > checkpoint::kLargestHeadDim ||
        v_dim > checkpoint::kLargestHeadDim || k[2] > kv::kMaxIndices)
      return input_error("{}: keys [{}] are too large", where_, fmt::join(k, ", "));
    layer.geometry = {static_cast<int>(k[1]), static_cast<int>(k_dim), static_cast<int>(v_dim),
                      codec, codec};
    layer.rows = k[2];
    return {};
  }

  // A ring is written from `next` on once it is full; `keep` first tokens stay in front. Rows that
  // were allocated ahead are not used yet.
  Result<MlxLayer> place_tokens(MlxLayer layer, bool rotating, int64_t offset, int64_t keep,
                                int64_t next) const {
    layer.token_of.assign(static_cast<size_t>(layer.rows), -1);
    std::vector<int64_t> order;  // physical rows, oldest token first
    const auto add = [&](int64_t first, int64_t end) {
      for (int64_t row = first; row < end; ++row) order.push_back(row);
    };
    if (!rotating) {
      add(0, std::min(offset, layer.rows));
    } else if (next > layer.rows || keep > layer.rows || (next < keep && next < offset)) {
      return input_error("{}: the next row is {} of {}, {} are kept", where_, next, layer.rows,
                         keep);
    } else if (next == layer.rows || next >= offset) {
      add(0, next);
    } else {
      add(0, keep);
      add(next, layer.rows);
      add(keep, next);
    }
    const auto held = static_cast<int64_t>(order.size());
    if (held > offset || (!rotating && held < offset))
      return input_error("{}: {} rows for {} tokens", where_, held, offset);
    for (int64_t i = 0; i < held; ++i)
      layer.token_of[static_cast<size_t>(order[static_cast<size_t>(i)])] =
          i < keep ? i : offset - held + i;
    return layer;
  }

  const checkpoint::SafetensorsFile& file_;
  const std::string& name_;
  const bool old_;
  std::map<std::string, const SourceTensor*> tensors_;
  std::string where_;
  int64_t layer_ = 0;
};

}  // namespace

bool is_mlx_cache(const Metadata& metadata) {
  const std::string* first = find(metadata, is_old(metadata) ? "2.0" : "1.0");
  return first != nullptr && (first->ends_with("Cache") || *first == "CacheList");
}

Result<bool> holds_mlx_cache(std::span<const std::byte> bytes, const std::string& name) {
  return is_mlx_cache(RK_TRY(checkpoint::parse_safetensors(bytes, name)).metadata);
}

std::string describe_rounding(const MlxCache& cache) {
  for (const MlxLayer& layer : cache.layers)
    if (layer.type_name != "F16")
      return fmt::format("{} stored as {}, rounded to half precision",
                         layer.geometry.k.scheme == KvScheme::f16 ? "keys and values" : "scales",
                         layer.type_name);
  return "";
}

Result<MlxCache> parse_mlx_cache(std::span<const std::byte> bytes, const std::string& name) {
  const auto file = RK_TRY(checkpoint::parse_safetensors(bytes, name));
  if (!is_mlx_cache(file.metadata))
    return input_error("{}: not a prompt cache of mlx-lm: its metadata names no cache classes",
                       name);
  return Reader(file, name).read();
}

}  // namespace ringkeep::engine
