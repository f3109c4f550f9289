// From the tensors of an adapter's file to the matrices that they belong to.
#include <algorithm>
#include <map>
#include <optional>

#include "base/sha256.h"
#include "weights/adapter.h"
#include "weights/row_order.h"

namespace ringkeep::weights {
namespace {

using Pair = AdapterSource::Pair;

struct Shape {
  int64_t outputs = 0, inputs = 0;
};

// Of a matrix that adapters can stand beside; nothing where the layer has none.
std::optional<Shape> shape_of(Part part, int layer, const ModelConfig& config) {
  const int64_t hidden = config.hidden, embedded = config.layer_embedding;
  const LayerSpec& spec = config.layers[static_cast<size_t>(layer)];
  const int64_t ffn = ffn_hidden_of(config, spec);
  const bool own = spec.donor < 0;
  const bool dense = !spec.experts || config.family == "gemma4";  // whose experts stand beside
  switch (part) {
    case Part::q: return Shape{int64_t{spec.heads} * spec.k_dim, hidden};
    case Part::k:
      if (!own) return std::nullopt;
      return Shape{int64_t{spec.kv_heads} * spec.k_dim, hidden};
    case Part::v:
      if (!own || spec.v_from_k) return std::nullopt;
      return Shape{int64_t{spec.kv_heads} * spec.v_dim, hidden};
    case Part::o: return Shape{hidden, int64_t{spec.heads} * spec.v_dim};
    case Part::gate:
    case Part::up:
      if (!dense) return std::nullopt;
      return Shape{ffn, hidden};
    case Part::down:
      if (!dense) return std::nullopt;
      return Shape{hidden, ffn};
    case Part::layer_gate: return Shape{embedded, hidden};
    case Part::layer_proj: return Shape{hidden, embedded};
    case Part::laurel_left: return Shape{config.laurel_rank, hidden};
    case Part::laurel_right: return Shape{hidden, config.laurel_rank};
    case Part::altup_router: return Shape{config.altup_streams, hidden};
    case Part::layer_model_proj:
      return Shape{static_cast<int64_t>(config.layers.size()) * embedded, hidden};
    case Part::lm_head: return Shape{config.vocab_size, hidden};
    default: return std::nullopt;
  }
}

// A module of the model as Hugging Face names it: the parts whose rows it holds, one after another.
struct Site {
  int layer = 0;  // 0 for model-wide ones
  bool in_layer = false;
  std::vector<Part> parts;
  std::string name;  // within its layer
};

// By every name that programs give it: text models, and those within others.
std::map<std::string, Site> sites_of(const ModelConfig& config) {
  std::vector<std::vector<Part>> modules = {{Part::o}, {Part::down}};
  if (config.family == "phi3")
    modules.insert(modules.end(), {{Part::q, Part::k, Part::v}, {Part::gate, Part::up}});
  else
    modules.insert(modules.end(), {{Part::q}, {Part::k}, {Part::v}, {Part::gate}, {Part::up}});
  if (config.layer_embedding > 0)
    modules.insert(modules.end(), {{Part::layer_gate}, {Part::layer_proj}});
  if (config.laurel_rank > 0)
    modules.insert(modules.end(), {{Part::laurel_left}, {Part::laurel_right}});
  if (config.altup_streams > 0) modules.push_back({Part::altup_router});

  std::map<std::string, Site> sites;
  for (const char* prefix : {"model.", "language_model.model.", "model.language_model.", ""}) {
    const auto name = [&](Part part, int layer) {
      return part_name(part, layer, config, checkpoint::Format::safetensors, prefix);
    };
    sites[name(Part::lm_head, 0)] = {.parts = {Part::lm_head}, .name = "lm_head"};
    if (config.layer_embedding > 0)
      sites[name(Part::layer_model_proj, 0)] = {
          .parts = {Part::layer_model_proj},
          .name =
              part_name(Part::layer_model_proj, 0, config, checkpoint::Format::safetensors, "")};
    for (int layer = 0; layer < static_cast<int>(config.layers.size()); ++layer)
      for (const auto& parts : modules) {
        const Part named = parts.size() == 1             ? parts.front()
                           : parts.front() == Part::gate ? Part::gate_up
                                                         : Part::qkv;
        const std::string begin = fmt::format("{}layers.{}.", prefix, layer);
        const std::string whole = name(named, layer);
        sites[whole] = {layer, true, parts, whole.substr(begin.size())};
      }
  }
  return sites;
}

// The two tensors of a module.
struct Found {
  const quant::SourceTensor* a = nullptr;
  const quant::SourceTensor* b = nullptr;
};

class Matcher {
 public:
  Matcher(const checkpoint::AdapterFile& file, const ModelConfig& config)
      : file_(file),
        config_(config),
        peft_(file.config.format == checkpoint::AdapterFormat::peft),
        sites_(sites_of(config)) {}

  Result<std::vector<Pair>> pairs(float scale) {
    for (const quant::SourceTensor& tensor : file_.tensors) RK_TRY(take(tensor));
    std::vector<Pair> result;
    for (const auto& [module, found] : found_)
      for (Pair& pair : RK_TRY(pairs_of(module, found, scale))) result.push_back(std::move(pair));
    return result;
  }

 private:
  template <typename... Args>
  Error error(fmt::format_string<Args...> format, Args&&... args) const {
    return input_error("{}: {}", file_.path, fmt::format(format, std::forward<Args>(args)...));
  }

  // Notes the tensor under its module.
  Status take(const quant::SourceTensor& tensor) {
    constexpr std::string_view kPrefix = "base_model.model.";
    std::string_view name = tensor.name;
    if (peft_ && !name.starts_with(kPrefix))
      return error("tensor {}: expected a name that begins with {}", tensor.name, kPrefix);
    if (peft_) name.remove_prefix(kPrefix.size());
    for (const bool is_a : {true, false}) {
      const std::string_view end = peft_  ? (is_a ? ".lora_A.weight" : ".lora_B.weight")
                                   : is_a ? ".lora_a"
                                          : ".lora_b";
      if (!name.ends_with(end)) continue;
      name.remove_suffix(end.size());
      Found& found = found_[std::string(name)];
      (is_a ? found.a : found.b) = &tensor;
      return {};
    }
    return error("tensor {} is {}", tensor.name, what(name));
  }

  // What a tensor that is no factor is, as far as its name tells.
  const char* what(std::string_view name) const {
    if (name.find("lora_magnitude_vector") != name.npos || (!peft_ && name.ends_with(".m")))
      return "of DoRA, which is not supported";
    if (name.find("lora_embedding_") != name.npos)
      return "a factor of embeddings, which adapters cannot change here";
    if (name.find(".base_layer.") != name.npos)
      return "a weight of the model itself: save the adapter with save_embedding_layers=False";
    if (name.ends_with(".bias")) return "a bias: expected factors of LoRA alone";
    return "no factor of LoRA: whole modules are not read from adapters";
  }

  Result<std::vector<Pair>> pairs_of(const std::string& module, const Found& found, float scale) {
    if (found.a == nullptr || found.b == nullptr)
      return error("module {}: it has {}, but no {}", module,
                   (found.a != nullptr ? found.a : found.b)->name,
                   found.a == nullptr ? "factor A" : "factor B");
    const auto site = sites_.find(module);
    if (site == sites_.end()) return error("module {}: {}", module, why_unknown(module));
    RK_TRY(check_mlx_place(module, site->second));

    const Site& at = site->second;
    if (const auto [other, first] = named_.emplace(std::pair(at.layer, at.parts.front()), module);
        !first)
      return error("modules {} and {} are the same matrix", other->second, module);
    const int64_t rank = file_.config.rank_of(module);
    std::vector<Pair> pairs;
    Shape whole;
    for (const Part part : at.parts) {
      const auto shape = shape_of(part, at.layer, config_);
      if (!shape) {
        // Others keep projections for such a layer that they never compute.
        if (config_.layers[static_cast<size_t>(at.layer)].donor >= 0) return pairs;
        return error("module {}: the layer has no such matrix", module);
      }
      pairs.push_back({.module = module,
                       .a = found.a,
                       .b = found.b,
                       .transposed = !peft_,
                       .rank = rank,
                       .scale = file_.config.scale_of(module) * static_cast<double>(scale),
                       .part = part,
                       .layer = at.layer,
                       .first = whole.outputs,
                       .outputs = shape->outputs,
                       .inputs = shape->inputs,
                       .order = order_of(part, at.layer)});
      whole.outputs += shape->outputs;
      whole.inputs = shape->inputs;
    }
    RK_TRY(check(*found.a, rank, whole.inputs));
    RK_TRY(check(*found.b, whole.outputs, rank));
    return pairs;
  }

  // [rows, cols], or [cols, rows] in a file of mlx-lm, of a float type.
  Status check(const quant::SourceTensor& tensor, int64_t rows, int64_t cols) const {
    std::vector<int64_t> expected = {rows, cols};
    if (!peft_) std::swap(expected[0], expected[1]);
    if (tensor.shape != expected)
      return error("tensor {} has shape [{}], expected [{}] from the model and the rank {}",
                   tensor.name, fmt::join(tensor.shape, ", "), fmt::join(expected, ", "),
                   std::min(rows, cols));
    if (tensor.type > quant::SourceType::bf16)
      return error("tensor {} is of type {}, expected F32, F16 or BF16", tensor.name,
                   tensor.type_name);
    return {};
  }

  // mlx-lm makes factors for some modules of the last layers; it refuses others, and so do we.
  Status check_mlx_place(const std::string& module, const Site& site) const {
    if (peft_) return {};
    const auto layers = static_cast<int64_t>(config_.layers.size());
    const auto& keys = file_.config.keys;
    const int64_t last = file_.config.last_layers;
    const bool by_name = std::ranges::count(keys, module) > 0;
    if (!by_name && !site.in_layer)
      return error("module {} is not among the keys of lora_parameters", module);
    if (!by_name && !keys.empty() && std::ranges::count(keys, site.name) == 0)
      return error("module {} is not among the keys of lora_parameters", module);
    if (!by_name && last > 0 && site.layer < layers - last)
      return error("module {} is not in the last {} of {} layers (num_layers)", module, last,
                   layers);
    return {};
  }

  std::string why_unknown(const std::string& module) const {
    if (module.ends_with("embed_tokens") || module.ends_with("embed_tokens_per_layer"))
      return "adapters cannot change embeddings here";
    if (module.find("altup") != module.npos)
      return "adapters cannot change the maps between AltUp's streams here";
    if (module.find("expert") != module.npos || module.find("switch_mlp") != module.npos)
      return "adapters cannot change experts here";
    return fmt::format("a {} model of {} layers has no such matrix here", config_.family,
                       config_.layers.size());
  }

  RowOrder order_of(Part part, int layer) const {
    if (part != Part::q && part != Part::k) return {};
    // Factors have the rows of Hugging Face's weights, whatever file the model comes from.
    if (!interleaved_rows(config_, checkpoint::Format::safetensors)) return {};
    const LayerSpec& spec = config_.layers[static_cast<size_t>(layer)];
    return undo_interleave(part == Part::q ? spec.heads : spec.kv_heads, spec.k_dim,
                           spec.k_dim / 2);
  }

  const checkpoint::AdapterFile& file_;
  const ModelConfig& config_;
  const bool peft_;
  const std::map<std::string, Site> sites_;
  std::map<std::string, Found> found_;                 // by module
  std::map<std::pair<int, Part>, std::string> named_;  // the module of a layer's part
};

}  // namespace

Result<AdapterSource> AdapterSource::open(const std::string& path, float scale,
                                          const ModelConfig& config) {
  AdapterSource source;
  source.file_ = RK_TRY(checkpoint::open_adapter(path));
  source.pairs_ = RK_TRY(Matcher(source.file_, config).pairs(scale));
  source.sha256_ = sha256_hex(fmt::format("{} times {}", source.file_.sha256, scale));
  return source;
}

}  // namespace ringkeep::weights
