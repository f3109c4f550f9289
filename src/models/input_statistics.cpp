#include "models/input_statistics.h"

#include <utility>

#include "weights/names.h"

namespace ringkeep::models {

void InputStatistics::add(const float* x, int64_t stride, int64_t rows,
                          std::span<const kernels::LinearOutput> outputs, kernels::Device& device) {
  const auto cols = static_cast<size_t>(outputs.front().weight->cols);
  std::vector<double> squares(cols);
  std::vector<float> row(cols);
  device.sync();
  for (int64_t r = 0; r < rows; ++r) {
    device.copy_out(row.data(), reinterpret_cast<const std::byte*>(x + r * stride),
                    cols * sizeof(float));
    for (size_t c = 0; c < cols; ++c) squares[c] += static_cast<double>(row[c]) * row[c];
  }
  for (const kernels::LinearOutput& output : outputs) {
    Sums& sums = inputs_[output.weight->data];
    sums.rows += rows;
    sums.squares.resize(cols);
    for (size_t c = 0; c < cols; ++c) sums.squares[c] += squares[c];
  }
}

std::map<std::string, std::vector<float>> InputStatistics::by_module(
    const weights::DecoderWeights& weights, const checkpoint::Checkpoint& checkpoint) const {
  using weights::Part;
  std::map<std::string, std::vector<float>> result;
  const std::string prefix = weights::find_prefix(checkpoint.table, checkpoint.format);
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const weights::LayerWeights& w = weights.layers[i];
    const std::pair<const weights::OwnedTensor*, Part> parts[] = {
        {&w.q, Part::q},
        {&w.k, Part::k},
        {&w.v, Part::v},
        {&w.o, Part::o},
        {&w.gate, Part::gate},
        {&w.up, Part::up},
        {&w.down, Part::down},
        {&w.layer_gate, Part::layer_gate},
        {&w.altup.router, Part::altup_router},
        {&w.laurel.left, Part::laurel_left},
        {&w.laurel.right, Part::laurel_right},
        {&w.q, Part::qkv},
        {&w.gate, Part::gate_up},
        {&w.layer_proj, Part::layer_proj}};
    for (const auto& [matrix, part] : parts) {
      const auto found = inputs_.find(matrix->tensor.data);
      const std::string name = weights::part_name(part, static_cast<int>(i), checkpoint.config,
                                                  checkpoint.format, prefix);
      if (!*matrix || found == inputs_.end() || checkpoint.table.find(name + ".weight") == nullptr)
        continue;
      std::vector<float>& mean = result[name];
      for (const double sum : found->second.squares)
        mean.push_back(static_cast<float>(sum / static_cast<double>(found->second.rows)));
    }
  }
  return result;
}

}  // namespace ringkeep::models
