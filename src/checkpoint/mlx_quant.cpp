#include "checkpoint/mlx_quant.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace ringkeep::checkpoint {

namespace {

using quant::SourceTensor;
using quant::SourceType;

bool is_width(int64_t bits) {
  return bits == 2 || bits == 3 || bits == 4 || bits == 5 || bits == 6 || bits == 8;
}
bool is_group(int64_t group) { return group == 32 || group == 64 || group == 128; }

// Checkpoints and configurations put "model." and "language_model." before the name in any order.
std::string_view without_prefix(std::string_view name) {
  for (;;) {
    bool stripped = false;
    for (const std::string_view prefix : {"model.", "language_model."})
      if (name.starts_with(prefix)) {
        name.remove_prefix(prefix.size());
        stripped = true;
      }
    if (!stripped) return name;
  }
}

// bits and group_size of one object, absent values from `fallback`.
Result<MlxModule> read_module(const JsonFields& fields, const MlxModule& fallback) {
  const auto mode = RK_TRY(fields.text("mode"));
  if (mode && *mode != "affine" && *mode != "mxfp4")
    return input_error("{}: mode \"{}\" is not supported; affine and mxfp4 are", fields.where(),
                       *mode);
  const bool mxfp4 = mode ? *mode == "mxfp4" : fallback.mxfp4;
  const int64_t bits = RK_TRY(fields.integer("bits", 0, 64)).value_or(fallback.bits);
  const int64_t group = RK_TRY(fields.integer("group_size", 0, 4096)).value_or(fallback.group);
  if (!is_width(bits)) return fields.wrong("bits", "2, 3, 4, 5, 6 or 8");
  if (!is_group(group)) return fields.wrong("group_size", "32, 64 or 128");
  if (mxfp4 && bits != 4) return fields.wrong("bits", "4 in mode mxfp4");
  if (mxfp4 && group != 32) return fields.wrong("group_size", "32 in mode mxfp4");
  return MlxModule{static_cast<int>(bits), static_cast<int>(group), mxfp4};
}

std::string describe(const MlxModule& module) {
  return module.bits == 0 ? "not quantized"
                          : fmt::format("{} bits in groups of {}", module.bits, module.group);
}

std::string describe_shape(const SourceTensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape, ", "));
}

// Shapes [.., rows, packed] and [.., rows, groups] -> bits, group and the logical columns.
Status fold(const MlxQuantization& quantization, const std::string& module, SourceTensor& weight,
            const SourceTensor& scales, const SourceTensor* biases) {
  if (weight.type_name != "U32")
    return input_error("{}: expected U32 codes beside {}.scales, found {}", weight.name, module,
                       weight.type_name);
  const MlxModule stated = quantization.of(module);
  if (stated.bits == 0)
    return input_error("{}: config.json says that it is not quantized, but there is {}.scales",
                       weight.name, module);
  if (stated.mxfp4 != (biases == nullptr))
    return input_error("{}: expected {} {}.biases beside it in mode {}", weight.name,
                       stated.mxfp4 ? "no" : "a tensor", module, stated.mxfp4 ? "mxfp4" : "affine");
  if (stated.mxfp4 && scales.type_name != "U8")
    return input_error("{}: expected U8 scales in mode mxfp4, found {}", weight.name,
                       scales.type_name);
  if (!stated.mxfp4 && (scales.type == SourceType::other || scales.type != biases->type ||
                        scales.shape != biases->shape))
    return input_error("{}: scales {} {} and biases {} {} must have one shape and a float type",
                       weight.name, scales.type_name, describe_shape(scales), biases->type_name,
                       describe_shape(*biases));
  const size_t rank = weight.shape.size();
  if (rank < 2 || scales.shape.size() != rank ||
      !std::equal(weight.shape.begin(), weight.shape.end() - 1, scales.shape.begin()))
    return input_error("{}: codes {} and scales {} must have the same rows", weight.name,
                       describe_shape(weight), describe_shape(scales));

  // Sizes are those of mapped bytes, so that these products cannot overflow.
  const int64_t packed_bits = weight.shape.back() * 32;
  const int64_t cols = scales.shape.back() * stated.group;
  const int64_t bits = cols > 0 ? packed_bits / cols : 0;
  if (cols == 0 || packed_bits % cols != 0 || bits != stated.bits)
    return input_error("{}: config.json says {}, but {} words and {} groups a row make {:.4g} bits",
                       weight.name, describe(stated), weight.shape.back(), scales.shape.back(),
                       static_cast<double>(packed_bits) / static_cast<double>(cols));
  weight.type = stated.mxfp4 ? SourceType::mlx_mxfp4 : SourceType::mlx_affine;
  weight.type_name = stated.mxfp4 ? "MLX MXFP4" : "MLX affine";
  weight.shape.back() = cols;
  weight.bits = static_cast<int>(bits);
  weight.group = stated.group;
  weight.scales = scales.data;
  if (biases != nullptr) {
    weight.biases = biases->data;
    weight.scale_type = scales.type;
  }
  return {};
}

}  // namespace

MlxModule MlxQuantization::of(const std::string& name) const {
  const auto found = modules.find(std::string(without_prefix(name)));
  return found == modules.end() ? global : found->second;
}

Result<std::optional<MlxQuantization>> read_mlx_quantization(const Json& config) {
  const JsonFields outer(config, "config.json");
  auto object = RK_TRY(outer.object("quantization"));
  if (!object) {
    object = RK_TRY(outer.object("quantization_config"));
    if (object && object->has("quant_method") && !object->has("bits"))
      return std::optional<MlxQuantization>();
  }
  if (!object) return std::optional<MlxQuantization>();
  MlxQuantization result;
  result.global = RK_TRY(read_module(*object, {4, 64}));
  for (const auto& [key, value] : object->json().items()) {
    MlxModule module;
    if (value.is_object())
      module = RK_TRY(read_module(JsonFields(value, fmt::format("{}: {}", object->where(), key)),
                                  result.global));
    else if (value.is_boolean())
      module = value.get<bool>() ? result.global : MlxModule{};
    else
      continue;  // bits, group_size, mode, and other settings of the whole
    result.modules[std::string(without_prefix(key))] = module;
  }
  return std::optional<MlxQuantization>(std::move(result));
}

Status fold_mlx_tensors(const std::optional<MlxQuantization>& quantization,
                        std::map<std::string, SourceTensor>& tensors) {
  constexpr std::string_view kScales = ".scales";
  std::vector<std::string> modules;
  for (const auto& [name, tensor] : tensors)
    if (name.ends_with(kScales)) modules.push_back(name.substr(0, name.size() - kScales.size()));
  for (const std::string& module : modules) {
    if (!quantization)
      return input_error("{}.scales: a quantized module, but config.json has no quantization",
                         module);
    const auto weight = tensors.find(module + ".weight");
    const auto scales = tensors.find(module + ".scales");
    const auto biases = tensors.find(module + ".biases");
    const bool none = biases == tensors.end();
    if (weight == tensors.end() || (none && !quantization->of(module).mxfp4))
      return input_error("{}.scales: expected {}.{} beside it, found none", module, module,
                         weight == tensors.end() ? "weight" : "biases");
    RK_TRY(fold(*quantization, module, weight->second, scales->second,
                none ? nullptr : &biases->second));
    tensors.erase(scales);
    if (!none) tensors.erase(biases);
  }
  return {};
}

Status fold_mxfp4_tensors(std::map<std::string, SourceTensor>& tensors) {
  constexpr std::string_view kBlocks = "_blocks";
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors)
    if (name.ends_with(kBlocks)) names.push_back(name.substr(0, name.size() - kBlocks.size()));
  for (const std::string& name : names) {
    const auto blocks = tensors.find(name + "_blocks");
    const auto scales = tensors.find(name + "_scales");
    if (scales == tensors.end() || tensors.contains(name))
      return input_error("{}_blocks: expected {}_scales and no {} beside it", name, name, name);
    SourceTensor weight = blocks->second;
    const auto rank = weight.shape.size();
    if (weight.type_name != "U8" || scales->second.type_name != "U8" || rank < 3 ||
        weight.shape.back() != 16 || scales->second.shape.size() != rank - 1 ||
        !std::equal(weight.shape.begin(), weight.shape.end() - 1, scales->second.shape.begin()))
      return input_error(
          "{}_blocks: expected U8 [.., rows, groups, 16] beside scales U8 [.., rows, groups], "
          "found "
          "{} {} and {} {}",
          name, weight.type_name, describe_shape(weight), scales->second.type_name,
          describe_shape(scales->second));
    weight.name = name;
    weight.type = SourceType::mlx_mxfp4;
    weight.type_name = "MXFP4";
    weight.shape.pop_back();
    weight.shape.back() *= 32;
    weight.bits = 4;
    weight.group = 32;
    weight.scales = scales->second.data;
    tensors.erase(blocks);
    tensors.erase(scales);
    tensors.emplace(name, std::move(weight));
  }
  return {};
}

}  // namespace ringkeep::checkpoint
