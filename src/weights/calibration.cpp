#include "weights/calibration.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "base/sha256.h"
#include "checkpoint/limits.h"
#include "checkpoint/safetensors.h"
#include "weights/names.h"

namespace ringkeep::weights {
namespace {

constexpr const char* kFormat = "ringkeep key calibration";
constexpr const char* kVersion = "1";
constexpr size_t kLargestFile = size_t{1} << 30;
// Each rms is floored at 1e-3 of the largest, so sqrt(q / k) over its geometric mean is in here.
constexpr float kLargestFactor = 1.001e3f;

std::string tensor_name(size_t layer) { return fmt::format("layers.{}.k_balance", layer); }

bool owns_keys(const LayerSpec& layer) {
  return layer.kind == LayerKind::full || layer.kind == LayerKind::sliding ||
         layer.kind == LayerKind::chunked;
}

// A non-negative number in the metadata.
Result<int64_t> number(const checkpoint::SafetensorsFile& file, const char* field, int64_t most,
                       const std::string& name) {
  const auto found = file.metadata.find(field);
  const std::string text = found == file.metadata.end() ? "" : found->second;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most)
    return input_error("{}: {}: expected a number up to {}, found \"{}\"", name, field, most, text);
  return value;
}

Status check_header(const checkpoint::SafetensorsFile& file, const std::string& name) {
  const auto expect = [&](const char* field, const std::string& wanted) -> Status {
    const auto found = file.metadata.find(field);
    if (found != file.metadata.end() && found->second == wanted) return {};
    return input_error("{}: {}: expected \"{}\", found {}", name, field, wanted,
                       found == file.metadata.end() ? "none" : '"' + found->second + '"');
  };
  RK_TRY(expect("format", kFormat));
  RK_TRY(expect("version", kVersion));
  Sha256 digest;
  for (const auto& tensor : file.tensors) digest.update(std::span(tensor.data, tensor.bytes));
  if (!expect("factors_sha256", digest.hex()).ok())
    return input_error("{}: the factors do not match factors_sha256: edited or damaged", name);
  return {};
}

// Plausible factors: positive, finite, geometric mean 1 over each head.
Status check_factors(const std::vector<float>& factors, size_t dim, const std::string& where) {
  for (size_t begin = 0; begin < factors.size(); begin += dim) {
    double sum = 0;
    for (size_t i = begin; i < begin + dim; ++i) {
      if (!(factors[i] >= 1.0f / kLargestFactor && factors[i] <= kLargestFactor))
        return input_error("{}: factor {} is {}, expected one between {:.3g} and {:.3g}", where, i,
                           factors[i], 1.0f / kLargestFactor, kLargestFactor);
      sum += std::log(factors[i]);
    }
    if (std::abs(sum / static_cast<double>(dim)) > 1e-3)
      return input_error("{}: the geometric mean of head {} is {:.4f}, expected 1", where,
                         begin / dim, std::exp(sum / static_cast<double>(dim)));
  }
  return {};
}

}  // namespace

Result<std::string> norms_fingerprint(const checkpoint::Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config;
  const std::string prefix = find_prefix(checkpoint.table, checkpoint.format);
  Sha256 digest;
  const auto add = [&](Part part, int layer) -> Status {
    const std::string name = part_name(part, layer, config, checkpoint.format, prefix) + ".weight";
    const auto* tensor = checkpoint.table.find(name);
    if (tensor == nullptr || tensor->type == quant::SourceType::mlx_affine ||
        tensor->type == quant::SourceType::other)
      return input_error("{}: tensor {} is missing", checkpoint.path, name);
    std::vector<float> values = quant::to_floats(*tensor);
    if (config.norm_weight_plus_one)
      for (float& value : values) value += 1.0f;
    digest.update(std::as_bytes(std::span(values)));
    return {};
  };
  const Part norm = branch_norms(config).attn ? Part::attn_norm : Part::post_attn_norm;
  for (size_t i = 0; i < config.layers.size(); ++i) RK_TRY(add(norm, static_cast<int>(i)));
  RK_TRY(add(Part::final_norm, 0));
  return digest.hex();
}

std::string encode_calibration(const Calibration& calibration) {
  nlohmann::ordered_json header;
  std::string data;
  for (size_t i = 0; i < calibration.balance.size(); ++i) {
    const auto& c = calibration.balance[i];
    if (c.empty()) continue;
    const size_t bytes = c.size() * sizeof(float);
    header[tensor_name(i)] = {
        {"dtype", "F32"},
        {"shape",
         {calibration.kv_heads[i], static_cast<int64_t>(c.size()) / calibration.kv_heads[i]}},
        {"data_offsets", {data.size(), data.size() + bytes}}};
    data.append(reinterpret_cast<const char*>(c.data()), bytes);
  }
  header["__metadata__"] = {{"format", kFormat},
                            {"version", kVersion},
                            {"family", calibration.family},
                            {"layers", std::to_string(calibration.balance.size())},
                            {"norms_sha256", calibration.norms_sha256},
                            {"text_sha256", calibration.text_sha256},
                            {"tokens", std::to_string(calibration.tokens)},
                            {"factors_sha256", sha256_hex(data)}};
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the format aligns the data
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text + data;
}

Result<Calibration> parse_calibration(std::span<const std::byte> bytes, const std::string& name) {
  const auto file = RK_TRY(checkpoint::parse_safetensors(bytes, name));
  RK_TRY(check_header(file, name));
  Calibration result;
  const auto text = [&](const char* field) {
    const auto found = file.metadata.find(field);
    return found == file.metadata.end() ? std::string() : found->second;
  };
  result.family = text("family");
  result.norms_sha256 = text("norms_sha256");
  result.text_sha256 = text("text_sha256");
  result.tokens = RK_TRY(number(file, "tokens", INT64_MAX, name));
  const auto layers =
      static_cast<size_t>(RK_TRY(number(file, "layers", checkpoint::kMostLayers, name)));
  result.balance.resize(layers);
  result.kv_heads.resize(layers);
  std::map<std::string, size_t> expected;
  for (size_t i = 0; i < layers; ++i) expected[tensor_name(i)] = i;
  for (const auto& tensor : file.tensors) {
    const std::string where = fmt::format("{}: {}", name, tensor.name);
    const auto found = expected.find(tensor.name);
    if (found == expected.end())
      return input_error("{}: expected {} to {}", where, tensor_name(0),
                         tensor_name(std::max<size_t>(layers, 1) - 1));
    if (tensor.type != quant::SourceType::f32 || tensor.shape.size() != 2 || tensor.rows() < 1 ||
        tensor.cols() < 1)
      return input_error("{}: expected F32 [kv_heads, k_dim], found {} with {} dimensions", where,
                         tensor.type_name, tensor.shape.size());
    auto& c = result.balance[found->second];
    c.resize(tensor.bytes / sizeof(float));  // parse_safetensors checked bytes against the shape
    std::memcpy(c.data(), tensor.data, tensor.bytes);
    result.kv_heads[found->second] = tensor.rows();
    RK_TRY(check_factors(c, static_cast<size_t>(tensor.cols()), where));
  }
  return result;
}

Status check_fits(const Calibration& calibration, const checkpoint::Checkpoint& checkpoint,
                  const std::string& name) {
  const ModelConfig& config = checkpoint.config;
  const auto differs = [&](const std::string& field, const auto& found, const auto& own) {
    return input_error("{}: made for another model: {} is {}, this model has {}", name, field,
                       found, own);
  };
  if (calibration.family != config.family)
    return differs("family", calibration.family, config.family);
  if (calibration.balance.size() != config.layers.size())
    return differs("layers", calibration.balance.size(), config.layers.size());
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const LayerSpec& layer = config.layers[i];
    const auto& c = calibration.balance[i];
    const int64_t heads = calibration.kv_heads[i];
    const auto shape = [](int64_t rows, int64_t cols) {
      return fmt::format("[{}, {}]", rows, cols);
    };
    const int64_t cols = heads > 0 ? static_cast<int64_t>(c.size()) / heads : 0;
    const bool own = owns_keys(layer);
    if (heads != (own ? layer.kv_heads : 0) || cols != (own ? layer.k_dim : 0))
      return differs(fmt::format("[kv_heads, k_dim] of layer {}", i), shape(heads, cols),
                     shape(own ? layer.kv_heads : 0, own ? layer.k_dim : 0));
    const int pairs = layer.rope.rotary_dim / 2;
    for (int64_t h = 0; h < heads; ++h)
      for (int j = 0; j < pairs; ++j) {
        const auto at = static_cast<size_t>(h * cols + j);
        if (c[at] != c[at + static_cast<size_t>(pairs)])
          return input_error(
              "{}: made for another model: layer {} has different factors for channels {} and {}, "
              "which this model's rotary embedding turns together",
              name, i, j, j + pairs);
      }
  }
  if (checkpoint.table.tensors.empty()) return {};
  const std::string norms = RK_TRY(norms_fingerprint(checkpoint));
  if (calibration.norms_sha256 != norms)
    return differs("norms_sha256", calibration.norms_sha256, norms);
  return {};
}

Result<Calibration> load_calibration(const std::string& path,
                                     const checkpoint::Checkpoint& checkpoint) {
  const MappedFile file = RK_TRY(MappedFile::open(path));
  if (file.bytes().size() > kLargestFile)
    return input_error("{}: {} bytes, expected a small file of at most {}", path,
                       file.bytes().size(), kLargestFile);
  Calibration calibration = RK_TRY(parse_calibration(file.bytes(), path));
  RK_TRY(check_fits(calibration, checkpoint, path));
  return calibration;
}

}  // namespace ringkeep::weights
