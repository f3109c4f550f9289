#include "convert/modules.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "convert/experts.h"
#include "weights/leftovers.h"
#include "weights/names.h"

namespace ringkeep::convert {
namespace {

using quant::SourceTensor;
using quant::SourceType;

constexpr std::string_view kWeight = ".weight";

bool is_float(const SourceTensor& tensor) {
  return tensor.type == SourceType::f32 || tensor.type == SourceType::f16 ||
         tensor.type == SourceType::bf16;
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](auto end) { return name.ends_with(end); });
}

// Of a matrix, by its name without ".weight".
Kind kind_of(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (name.ends_with("embed_tokens")) return Kind::embedding;
  if (name.ends_with("embed_tokens_per_layer")) return Kind::layer_embedding;
  if (name.ends_with("lm_head")) return Kind::lm_head;
  if (ends_with_any(name, {"mlp.gate", "block_sparse_moe.gate", "router.proj", "mlp.router",
                           "feed_forward.router", "shared_expert_gate"}))
    return Kind::router;
  if (has(".altup.") || has(".laurel.") || has("altup_projections.") ||
      has("altup_unembed_projections."))
    return Kind::residual;
  if (has(".experts.") || has(".switch_mlp.") || has(".switch_glu.")) return Kind::experts;
  if (has(".self_attn.")) return Kind::attention;
  if (has(".mlp.") || has(".feed_forward.") || has(".shared_expert")) return Kind::feed_forward;
  return Kind::other;
}

Module module_of(const SourceTensor& tensor) {
  Module module{.name = tensor.name, .shape = tensor.shape, .parts = {tensor}};
  const std::string_view name = tensor.name;
  const bool encoder = weights::of_an_encoder(name);
  // AltUp's maps have as many columns as there are streams: no group fits.
  const bool small = name.ends_with("_coefs.weight");
  const bool matrix =
      is_float(tensor) && tensor.shape.size() == 2 && name.ends_with(kWeight) && !small;
  module.matrix = matrix;
  module.kind = encoder  ? Kind::encoder
                : matrix ? kind_of(name.substr(0, name.size() - kWeight.size()))
                         : Kind::vector;
  return module;
}

// Computed again by every reader, or, beside tied embeddings, read by none.
bool left_out(const std::string& name, const checkpoint::Checkpoint& checkpoint,
              const std::string& lm_head) {
  return name.ends_with("rotary_emb.inv_freq") ||
         (checkpoint.config.tied_embeddings && name == lm_head);
}

}  // namespace

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::embedding: return "embedding";
    case Kind::lm_head: return "lm_head";
    case Kind::layer_embedding: return "layer_embedding";
    case Kind::attention: return "attention";
    case Kind::feed_forward: return "feed_forward";
    case Kind::experts: return "experts";
    case Kind::router: return "router";
    case Kind::residual: return "residual";
    case Kind::encoder: return "encoder";
    case Kind::other: return "other";
    case Kind::vector: return "vector";
  }
  return "?";
}

std::string Module::module_name() const {
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
}

int64_t Module::weights() const {
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  return n;
}

Result<ModuleList> list_modules(const checkpoint::Checkpoint& checkpoint) {
  std::vector<const SourceTensor*> sources;
  for (const auto& [name, tensor] : checkpoint.table.tensors) sources.push_back(&tensor);
  std::sort(sources.begin(), sources.end(), [](const SourceTensor* a, const SourceTensor* b) {
    return std::pair(a->file, a->data) < std::pair(b->file, b->data);
  });
  const std::string prefix = weights::find_prefix(checkpoint.table, checkpoint.format);
  const std::string lm_head =
      weights::part_name(weights::Part::lm_head, 0, checkpoint.config, checkpoint.format, prefix) +
      std::string(kWeight);
  ModuleList list;
  ExpertStacks stacks;
  for (const SourceTensor* source : sources) {
    if (left_out(source->name, checkpoint, lm_head)) {
      list.left_out.push_back(source->name);
      continue;
    }
    if (RK_TRY(stacks.take(*source, list.modules))) continue;
    list.modules.push_back(module_of(*source));
  }
  RK_TRY(stacks.finish(list.modules));
  return list;
}

std::string mlx_name(const std::string& module, bool inner) {
  constexpr std::string_view kInner = "model.language_model.";
  if (module.starts_with(kInner)) return "language_model.model." + module.substr(kInner.size());
  if (inner && module == "lm_head") return "language_model.lm_head";
  constexpr std::string_view kOuter = "model.";
  if (inner && module.starts_with(kOuter)) return module.substr(kOuter.size());
  return module;
}

}  // namespace ringkeep::convert
