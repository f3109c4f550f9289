#include "models/families.h"

namespace ringkeep::models {
namespace {

struct Parts {
  ModelConfig config;
  weights::DecoderWeights weights;
  Activations activations;
  RopeTables ropes;
  const kernels::Ops& ops;
};

template <typename Family>
std::unique_ptr<Model> make(Parts parts) {
  return std::make_unique<Family>(std::move(parts.config), std::move(parts.weights),
                                  std::move(parts.activations), std::move(parts.ropes), parts.ops);
}

struct Entry {
  const char* family;
  std::unique_ptr<Model> (*make)(Parts);
};
constexpr Entry kFamilies[] = {
    {"gemma3", make<Gemma3>},     {"gemma4", make<Gemma4>},     {"llama", make<Llama>},
    {"mistral", make<Llama>},     {"qwen3", make<Llama>},       {"qwen2", make<Llama>},
    {"gemma2", make<Gemma3>},     {"phi3", make<Llama>},        {"smollm3", make<Llama>},
    {"olmo2", make<Olmo>},        {"olmo3", make<Olmo>},        {"cohere2", make<Cohere2>},
    {"qwen3_moe", make<QwenMoe>}, {"qwen2_moe", make<QwenMoe>}, {"gpt_oss", make<GptOss>},
    {"ministral", make<Llama>},   {"ministral3", make<Llama>},  {"mistral3", make<Llama>},
    {"gemma3n", make<Gemma3n>},   {"llama4", make<Llama4>}};

const Entry* find(const std::string& family) {
  for (const auto& entry : kFamilies)
    if (family == entry.family) return &entry;
  return nullptr;
}

}  // namespace

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : kFamilies) names.emplace_back(entry.family);
  return names;
}

Status check_family(const ModelConfig& config) {
  if (find(config.family) == nullptr)
    return input_error("model family '{}' is not supported, expected one of: {}", config.family,
                       fmt::join(families(), ", "));
  return {};
}

Result<std::unique_ptr<Model>> load_model(const checkpoint::Checkpoint& checkpoint,
                                          const ModelOptions& options, const kernels::Ops& ops,
                                          kernels::Device& device) {
  RK_TRY(check_family(checkpoint.config));
  auto weights = RK_TRY(weights::load_decoder(checkpoint, options.pack, ops, device));
  auto activations = RK_TRY(Activations::allocate(checkpoint.config, options.max_rows, device));
  auto ropes = RK_TRY(RopeTables::create(checkpoint.config, options.max_rows, device));
  return find(checkpoint.config.family)
      ->make(Parts{checkpoint.config, std::move(weights), std::move(activations), std::move(ropes),
                   ops});
}

size_t activation_bytes(const ModelConfig& config, int64_t max_rows) {
  return Activations::bytes(config, max_rows) + RopeTables::bytes(config, max_rows);
}

size_t adapter_scratch_bytes(const weights::AdapterSizes& sizes, int64_t max_rows) {
  return AdapterProducts::bytes(sizes, max_rows, kMaxLogitRows);
}

}  // namespace ringkeep::models
