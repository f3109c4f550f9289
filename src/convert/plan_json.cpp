// The two JSON files that describe a converted checkpoint.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "convert/plan.h"

namespace ringkeep::convert {
namespace {

using Json = nlohmann::ordered_json;

bool has_inner_model(const Plan& plan) {
  return std::any_of(plan.modules.begin(), plan.modules.end(), [](const PlannedModule& planned) {
    return planned.module.name.starts_with("model.language_model.");
  });
}

// Bits and group of all modules, then every matrix that has others, or none, by its name here and
// by the one that mlx-lm knows it by.
Json quantization(const Plan& plan) {
  const Setting& asked = plan.options.asked;
  Json object = {{"group_size", asked.group}, {"bits", asked.bits}, {"mode", "affine"}};
  const bool inner = has_inner_model(plan);
  for (const PlannedModule& planned : plan.modules) {
    if (!planned.module.matrix || planned.setting == asked) continue;
    const Json value = planned.setting.keep() ? Json(false)
                                              : Json{{"group_size", planned.setting.group},
                                                     {"bits", planned.setting.bits}};
    const std::string name = planned.module.module_name();
    object[name] = value;
    object[mlx_name(name, inner)] = value;
  }
  return object;
}

void restate_dtype(Json& config, const char* dtype) {
  for (const char* key : {"torch_dtype", "dtype"})
    if (config.contains(key)) config[key] = dtype;
}

}  // namespace

Result<std::string> config_text(const Plan& plan, const std::string& source) {
  Json config = Json::parse(source, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object())
    return input_error(
        "config.json: values that are no JSON (NaN or Infinity) cannot be carried over");
  if (plan.options.dtype) {
    restate_dtype(config, dtype_text(*plan.options.dtype));
    if (config.contains("text_config") && config["text_config"].is_object())
      restate_dtype(config["text_config"], dtype_text(*plan.options.dtype));
  }
  const Json object = quantization(plan);
  config["quantization"] = object;
  config["quantization_config"] = object;
  return config.dump(4) + "\n";
}

std::string index_text(const Plan& plan) {
  int64_t weights = 0;
  nlohmann::json map = nlohmann::json::object();  // by name
  for (const Shard& shard : plan.shards)
    for (size_t i = shard.first; i < shard.last; ++i) {
      weights += plan.modules[i].module.weights();
      for (const auto& entry : plan.modules[i].entries) map[entry.name] = shard.file;
    }
  const Json index = {{"metadata", {{"total_size", plan.bytes}, {"total_parameters", weights}}},
                      {"weight_map", map}};
  return index.dump(4) + "\n";
}

}  // namespace ringkeep::convert
