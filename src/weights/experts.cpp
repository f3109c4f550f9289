#include "weights/experts.h"

#include "weights/names.h"

namespace ringkeep::weights {
namespace {

using quant::SourceTensor;
using Shape = std::vector<int64_t>;

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

class Finder {
 public:
  Finder(const checkpoint::Checkpoint& checkpoint, const std::string& prefix, int layer)
      : checkpoint_(checkpoint), config_(checkpoint.config), prefix_(prefix), layer_(layer) {}

  Result<ExpertSources> find() {
    const int64_t width = config_.expert_hidden, hidden = config_.hidden;
    if (const SourceTensor* both = gate_and_up()) {
      RK_TRY(split(*both));
    } else {
      out_.gate = RK_TRY(matrices(Part::expert_gate, "gate_proj", width, hidden));
      out_.up = RK_TRY(matrices(Part::expert_up, "up_proj", width, hidden));
    }
    const SourceTensor* down = stack(Part::expert_down, {".weight", ""});
    const std::string plain = in_experts("down_proj");  // Hugging Face's stacks have no suffix
    if (down == nullptr) down = checkpoint_.table.find(plain);
    out_.down = down != nullptr ? RK_TRY(slices(*down, hidden, width, transposed(*down, plain)))
                                : RK_TRY(matrices(Part::expert_down, "down_proj", hidden, width));
    if (config_.expert_bias) RK_TRY(biases());
    return std::move(out_);
  }

 private:
  std::string name_of(Part part) const {
    return part_name(part, layer_, config_, checkpoint_.format, prefix_);
  }
  bool gguf() const { return checkpoint_.format == checkpoint::Format::gguf; }

  // The module that holds the experts in Hugging Face's files.
  std::string in_experts(const std::string& module) const {
    std::string name = name_of(Part::expert_gate_up);
    if (!gguf()) name.replace(name.rfind('.') + 1, std::string::npos, module);
    return name;
  }

  const SourceTensor* stack(Part part, std::initializer_list<const char*> suffixes) const {
    for (const char* suffix : suffixes)
      if (const auto* found = checkpoint_.table.find(name_of(part) + suffix)) return found;
    return nullptr;
  }
  const SourceTensor* gate_and_up() const { return stack(Part::expert_gate_up, {".weight", ""}); }

  // The dense stacks of GPT-OSS and Llama 4 in Hugging Face's files multiply from the right.
  bool transposed(const SourceTensor& tensor, const std::string& plain) const {
    return (config_.family == "gpt_oss" || config_.family == "llama4") && !gguf() &&
           tensor.name == plain && tensor.type != quant::SourceType::mlx_mxfp4;
  }

  Error wrong_shape(const SourceTensor& tensor, const Shape& expected) const {
    return input_error("{}: tensor {} has shape {}, expected {} from the configuration",
                       checkpoint_.path, tensor.name, shape_text(tensor.shape),
                       shape_text(expected));
  }

  // The matrices [rows, cols] of a stack.
  Result<ExpertMatrices> slices(const SourceTensor& tensor, int64_t rows, int64_t cols,
                                bool transposed) {
    const Shape expected = {config_.experts, transposed ? cols : rows, transposed ? rows : cols};
    if (tensor.shape != expected) return wrong_shape(tensor, expected);
    ExpertMatrices out;
    for (int64_t e = 0; e < config_.experts; ++e) {
      SourceTensor one = quant::matrix_of(tensor, e);
      one.transposed = transposed;
      one.shape = {rows, cols};
      out.experts.push_back(std::move(one));
    }
    out_.names.push_back(tensor.name);
    return out;
  }

  // A stack, or a tensor for each expert.
  Result<ExpertMatrices> matrices(Part part, const char* module, int64_t rows, int64_t cols) {
    if (const SourceTensor* whole = stack(part, {".weight"}))
      return slices(*whole, rows, cols, false);
    ExpertMatrices out;
    for (int e = 0; e < config_.experts; ++e) {
      const std::string name =
          gguf() ? name_of(part) + ".weight" : in_experts(fmt::format("{}.{}.weight", e, module));
      const SourceTensor* one = checkpoint_.table.find(name);
      if (one == nullptr)
        return input_error("{}: tensor {} is missing (nor is there a stack {}.weight)",
                           checkpoint_.path, name, name_of(part));
      if (one->shape != Shape{rows, cols}) return wrong_shape(*one, {rows, cols});
      out.experts.push_back(*one);
      out_.names.push_back(name);
    }
    return out;
  }

  // Gate and up of a stack of both: halves, or rows in turn.
  Status split(const SourceTensor& both) {
    const int64_t width = config_.expert_hidden;
    const bool in_turn = config_.family == "gpt_oss";
    const ExpertMatrices whole = RK_TRY(
        slices(both, 2 * width, config_.hidden, transposed(both, name_of(Part::expert_gate_up))));
    for (int64_t i = 0; i < width && in_turn; ++i) {
      out_.gate.order.push_back(2 * i);
      out_.up.order.push_back(2 * i + 1);
    }
    for (const SourceTensor& one : whole.experts) {
      out_.gate.experts.push_back(in_turn ? one : quant::rows_of(one, 0, width));
      out_.up.experts.push_back(in_turn ? one : quant::rows_of(one, width, width));
    }
    return {};
  }

  // [experts, rows] as floats; null when there is no such tensor.
  Result<std::vector<float>> bias(const std::string& name, int64_t rows) {
    const SourceTensor* tensor = checkpoint_.table.find(name);
    if (tensor == nullptr) return input_error("{}: tensor {} is missing", checkpoint_.path, name);
    const Shape expected = {config_.experts, rows};
    if (tensor->shape != expected) return wrong_shape(*tensor, expected);
    RK_TRY(quant::spec_of(*tensor));
    out_.bias_names.push_back(name);
    return quant::to_floats(*tensor);
  }

  Status biases() {
    const int64_t width = config_.expert_hidden, hidden = config_.hidden;
    if (checkpoint_.table.find(in_experts("gate_up_proj_bias")) != nullptr) {
      const auto both = RK_TRY(bias(in_experts("gate_up_proj_bias"), 2 * width));
      for (size_t i = 0; i < both.size(); ++i)
        (i % 2 == 0 ? out_.gate : out_.up).bias.push_back(both[i]);
      out_.down.bias = RK_TRY(bias(in_experts("down_proj_bias"), hidden));
      return {};
    }
    out_.gate.bias = RK_TRY(bias(name_of(Part::expert_gate) + ".bias", width));
    out_.up.bias = RK_TRY(bias(name_of(Part::expert_up) + ".bias", width));
    out_.down.bias = RK_TRY(bias(name_of(Part::expert_down) + ".bias", hidden));
    return {};
  }

  const checkpoint::Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const std::string& prefix_;
  int layer_;
  ExpertSources out_;
};

}  // namespace

Result<ExpertSources> find_experts(const checkpoint::Checkpoint& checkpoint,
                                   const std::string& prefix, int layer) {
  return Finder(checkpoint, prefix, layer).find();
}

}  // namespace ringkeep::weights
