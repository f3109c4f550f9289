#include "weights/fused.h"

#include <vector>

#include "weights/names.h"

namespace ringkeep::weights {
namespace {

struct Cut {
  Part part;
  int64_t rows;
};

class Splitter {
 public:
  Splitter(const checkpoint::Checkpoint& checkpoint, const std::string& prefix)
      : checkpoint_(checkpoint), prefix_(prefix) {}

  // Cuts the weight and the bias of `whole`, where the checkpoint has them.
  Status cut(Part whole, int layer, const std::vector<Cut>& cuts) {
    int64_t expected = 0;
    for (const Cut& cut : cuts) expected += cut.rows;
    for (const char* suffix : {".weight", ".bias"}) {
      const std::string name = name_of(whole, layer) + suffix;
      const quant::SourceTensor* source = checkpoint_.table.find(name);
      if (source == nullptr) continue;
      const int64_t rows = source->shape.empty() ? 0 : source->shape.front();
      if (rows != expected)
        return input_error("{}: tensor {} has {} rows, expected {} from the configuration",
                           checkpoint_.path, name, rows, expected);
      int64_t row0 = 0;
      for (const Cut& cut : cuts) {
        parts_.tensors[name_of(cut.part, layer) + suffix] = quant::rows_of(*source, row0, cut.rows);
        row0 += cut.rows;
      }
      parts_.wholes.insert(name);
    }
    return {};
  }

  // Cuts the stack [count, rows, rows] that a GGUF file has of AltUp's matrices.
  Status cut_stack(Part part, int64_t count, int64_t rows) {
    const std::string name = stack_name(part);
    const quant::SourceTensor* source = checkpoint_.table.find(name);
    if (source == nullptr) return {};
    const std::vector<int64_t> expected = {count, rows, rows};
    if (source->shape != expected)
      return input_error("{}: tensor {} has shape [{}], expected [{}] from the configuration",
                         checkpoint_.path, name, fmt::join(source->shape, ", "),
                         fmt::join(expected, ", "));
    for (int64_t i = 0; i < count; ++i)
      parts_.tensors[name_of(part, static_cast<int>(i)) + ".weight"] = quant::matrix_of(*source, i);
    parts_.wholes.insert(name);
    return {};
  }

  FusedParts take() { return std::move(parts_); }

 private:
  // "altup_proj.weight" of "altup_proj.0"
  std::string stack_name(Part part) const {
    const std::string first = name_of(part, 0);
    return first.substr(0, first.rfind('.')) + ".weight";
  }
  std::string name_of(Part part, int layer) const {
    return part_name(part, layer, checkpoint_.config, checkpoint_.format, prefix_);
  }

  const checkpoint::Checkpoint& checkpoint_;
  const std::string& prefix_;
  FusedParts parts_;
};

}  // namespace

Result<FusedParts> split_fused(const checkpoint::Checkpoint& checkpoint,
                               const std::string& prefix) {
  const ModelConfig& config = checkpoint.config;
  Splitter splitter(checkpoint, prefix);
  if (config.altup_streams > 1 && checkpoint.format == checkpoint::Format::gguf)
    for (const Part part : {Part::altup_proj, Part::altup_unembed})
      RK_TRY(splitter.cut_stack(part, config.altup_streams - 1, config.hidden));
  if (config.family != "phi3") return splitter.take();
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const LayerSpec& spec = config.layers[i];
    const int layer = static_cast<int>(i);
    RK_TRY(splitter.cut(Part::qkv, layer,
                        {{Part::q, int64_t{spec.heads} * spec.k_dim},
                         {Part::k, int64_t{spec.kv_heads} * spec.k_dim},
                         {Part::v, int64_t{spec.kv_heads} * spec.v_dim}}));
    RK_TRY(splitter.cut(Part::gate_up, layer,
                        {{Part::gate, config.ffn_hidden}, {Part::up, config.ffn_hidden}}));
  }
  return splitter.take();
}

}  // namespace ringkeep::weights
