#include "convert/experts.h"

#include <charconv>
#include <string_view>
#include <utility>

namespace ringkeep::convert {
namespace {

using quant::SourceTensor;

constexpr std::string_view kExperts = ".experts.";

// What the families call gate, up and down.
std::string_view part_of_stack(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"gate_proj.weight", "gate_proj"}, {"up_proj.weight", "up_proj"},
      {"down_proj.weight", "down_proj"}, {"w1.weight", "gate_proj"},
      {"w3.weight", "up_proj"},          {"w2.weight", "down_proj"},
  };
  for (const auto& [from, to] : kNames)
    if (name == from) return to;
  return {};
}

// Rows [row0, row0 + rows) of one matrix of [experts, all, cols]; `transposed`: of [experts, cols,
// all].
SourceTensor rows_of_expert(const SourceTensor& tensor, int64_t expert, bool transposed,
                            int64_t row0, int64_t rows) {
  SourceTensor matrix = quant::matrix_of(tensor, expert);
  matrix.transposed = transposed;
  if (transposed) std::swap(matrix.shape[0], matrix.shape[1]);
  return quant::rows_of(matrix, row0, rows);
}

}  // namespace

Status ExpertStacks::add(const std::string& name, int64_t expert, const SourceTensor& tensor,
                         std::vector<Module>& modules) {
  const auto [entry, is_new] = stacks_.try_emplace(name);
  if (is_new) {
    entry->second.module = modules.size();
    modules.push_back({.name = name, .kind = Kind::experts, .matrix = true});
  }
  if (!entry->second.experts.emplace(expert, tensor).second)
    return input_error("{}: there are two of this expert", tensor.name);
  return {};
}

Result<bool> ExpertStacks::take(const SourceTensor& tensor, std::vector<Module>& modules) {
  const std::string_view name = tensor.name;
  const size_t at = name.find(kExperts);
  if (at == std::string_view::npos) return false;
  const std::string parent(name.substr(0, at));
  std::string_view rest = name.substr(at + kExperts.size());
  if (rest.starts_with("switch_glu.")) return false;  // mlx-lm's own name

  // Gemma 4; Llama 4, whose stacks multiply from the right and keep their place in mlx-lm's names.
  if (tensor.shape.size() == 3 && (rest == "gate_up_proj" || rest == "down_proj")) {
    const bool both = rest == "gate_up_proj", llama4 = parent.ends_with(".feed_forward");
    const int64_t all = tensor.shape[llama4 ? 2 : 1];
    const int64_t rows = both ? all / 2 : all;
    if (both && all % 2 != 0)
      return input_error("{}: {} rows do not halve into gate and up", name, all);
    const std::string stack = parent + std::string(kExperts) + (llama4 ? "" : "switch_glu.");
    const auto add_rows = [&](const char* part, int64_t expert, int64_t row0) {
      return add(stack + part, expert, rows_of_expert(tensor, expert, llama4, row0, rows), modules);
    };
    for (int64_t e = 0; e < tensor.shape[0]; ++e) {
      if (!both) {
        RK_TRY(add_rows("down_proj.weight", e, 0));
        continue;
      }
      RK_TRY(add_rows("gate_proj.weight", e, 0));
      RK_TRY(add_rows("up_proj.weight", e, rows));
    }
    return true;
  }

  int64_t expert = -1;
  const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), expert);
  if (code == std::errc() && expert >= 0 && end != rest.data() + rest.size() && *end == '.') {
    rest.remove_prefix(static_cast<size_t>(end - rest.data()) + 1);
    const std::string_view part = part_of_stack(rest);
    if (!part.empty() && tensor.shape.size() == 2) {
      RK_TRY(add(fmt::format("{}.switch_mlp.{}.weight", parent, part), expert, tensor, modules));
      return true;
    }
  }
  return input_error("{}: experts in this form have no name in mlx-lm that convert knows", name);
}

Status ExpertStacks::finish(std::vector<Module>& modules) const {
  for (const auto& [name, stack] : stacks_) {
    Module& module = modules[stack.module];
    const SourceTensor& first = stack.experts.begin()->second;
    const auto count = static_cast<int64_t>(stack.experts.size());
    if (stack.experts.begin()->first != 0 || stack.experts.rbegin()->first != count - 1)
      return input_error("{}: expected experts 0 to {}, found {} of them", name,
                         stack.experts.rbegin()->first, count);
    for (const auto& [expert, tensor] : stack.experts) {
      if (tensor.shape != first.shape || tensor.type != first.type)
        return input_error(
            "{}: expected the shape [{}] and type {} of the first expert, found "
            "[{}] {}",
            tensor.name, fmt::join(first.shape, ", "), first.type_name,
            fmt::join(tensor.shape, ", "), tensor.type_name);
      module.parts.push_back(tensor);
    }
    module.shape = {count, first.shape[0], first.shape[1]};
  }
  return {};
}

}  // namespace ringkeep::convert
