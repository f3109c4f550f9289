#include "weights/leftovers.h"

#include <algorithm>

#include "weights/names.h"

namespace ringkeep::weights {
namespace {

constexpr std::string_view kEncoders[] = {
    "vision_tower.", "audio_tower.",           "vision_model.",   "embed_vision.",
    "embed_audio.",  "multi_modal_projector.", "vision_embedder."};

}  // namespace

bool of_an_encoder(std::string_view name) {
  if (name.starts_with("model.")) name.remove_prefix(6);
  return std::any_of(std::begin(kEncoders), std::end(kEncoders),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

Leftovers::Leftovers(const checkpoint::Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config;
  const std::string prefix = find_prefix(checkpoint.table, checkpoint.format);
  const auto name = [&](Part part, size_t layer) {
    return part_name(part, static_cast<int>(layer), config, checkpoint.format, prefix);
  };
  for (const char* table : {"freqs", "factors_long", "factors_short"})
    names_.insert(fmt::format("rope_{}.weight", table));  // GGUF's, which the configuration read
  if (config.tied_embeddings) names_.insert(name(Part::lm_head, 0) + ".weight");
  for (size_t i = 0; i < config.layers.size(); ++i) {
    if (config.altup_streams > 0 && !config.altup_scale_output)
      names_.insert(name(Part::altup_scale, i));
    if (config.layers[i].donor < 0) continue;
    for (const Part part : {Part::k, Part::v, Part::k_norm}) {
      names_.insert(name(part, i) + ".weight");
      names_.insert(name(part, i) + ".bias");
    }
  }
}

bool Leftovers::contains(const std::string& tensor) const {
  if (tensor.ends_with("rotary_emb.inv_freq")) return true;  // old files; it follows from the base
  return names_.contains(tensor) || of_an_encoder(tensor);
}

}  // namespace ringkeep::weights
