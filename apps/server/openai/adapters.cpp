// Which adapter a request chooses: by `model`, as in vLLM; by `adapters`, as in mlx-lm; by `lora`,
// as in llama.cpp. Nothing is loaded for a request.
#include <algorithm>

#include "server/openai/app.h"

namespace ringkeep::openai {
namespace {

using Choice = std::optional<int>;

Result<Choice> by_name(const Model& model, const std::string& name) {
  if (name.empty()) return Choice();
  int found = find_adapter(model, name);
  for (size_t i = 0; found < 0 && i < model.adapters.size(); ++i)
    if (model.adapters[i].path == name) found = static_cast<int>(i);
  if (found >= 0) return Choice(found);
  return make_error(ErrorKind::usage,
                    "adapters: there is no adapter \"{}\" here: the server is started with those "
                    "that requests may choose (--adapter NAME=PATH)",
                    name);
}

// Every adapter that the list leaves out is off.
Result<Choice> by_scales(const Model& model, const GenerationFields& fields) {
  if (!fields.lora) return Choice();
  int chosen = -1;
  for (const auto& [id, scale] : *fields.lora) {
    if (id >= static_cast<int64_t>(model.adapters.size()))
      return make_error(ErrorKind::usage, "lora: there is no adapter {}, the server has {}", id,
                        model.adapters.size());
    if (scale == 0.0f) continue;
    const ServedAdapter& adapter = model.adapters[static_cast<size_t>(id)];
    if (scale != adapter.scale)
      return make_error(ErrorKind::usage,
                        "lora: the scale of adapter {} is {}, as the server was started: expected "
                        "that or 0, found {}",
                        id, adapter.scale, scale);
    if (chosen >= 0 && chosen != id)
      return make_error(ErrorKind::usage,
                        "lora: one adapter can be on in a request, found {} and {}", chosen, id);
    chosen = static_cast<int>(id);
  }
  return Choice(chosen);
}

}  // namespace

int find_adapter(const Model& model, const std::string& name) {
  const auto found = std::ranges::find(model.adapters, name, &ServedAdapter::name);
  return found != model.adapters.end() ? static_cast<int>(found - model.adapters.begin()) : -1;
}

AdapterChoice choose_adapter(const Model& model, const GenerationFields& fields) {
  Choice chosen;
  if (const int named = find_adapter(model, fields.model); named >= 0) chosen = named;
  const auto take = [&](const char* param,
                        const Result<Choice>& choice) -> std::optional<ApiError> {
    if (!choice.ok()) return bad_field(param, choice.error().message);
    if (!*choice) return std::nullopt;
    if (chosen && *chosen != **choice)
      return bad_field(param, fmt::format("{}: another field chooses another adapter", param));
    chosen = *choice;
    return std::nullopt;
  };
  if (const auto error = take("adapters", by_name(model, fields.adapters))) return {{}, error};
  if (const auto error = take("lora", by_scales(model, fields))) return {{}, error};
  return {chosen, {}};
}

}  // namespace ringkeep::openai
