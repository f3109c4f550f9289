// adapter_config.json of PEFT (LoraConfig) and of mlx-lm (the arguments of mlx_lm.lora).
#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "checkpoint/adapter.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/limits.h"

namespace ringkeep::checkpoint {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr double kLargestAlpha = 1e6;
constexpr size_t kMostPatterns = 1 << 16;

// Fields of LoraConfig that do not change what the factors mean: where they came from, how they
// were trained, what others do with them. `target_modules` and its like say where factors are, and
// so does the tensor file.
constexpr const char* kPeftNotes[] = {
    "task_type",
    "base_model_name_or_path",
    "revision",
    "inference_mode",
    "auto_mapping",
    "peft_version",
    "lora_dropout",
    "target_modules",
    "exclude_modules",
    "layers_to_transform",
    "layers_pattern",
    "megatron_config",
    "megatron_core",
    "loftq_config",
    "eva_config",
    "runtime_config",
    "qalora_group_size",
    "ensure_weight_tying",
    "low_cpu_mem_usage",
    "init_lora_weights",
    "peft_type",
    "r",
    "lora_alpha",
    "use_rslora",
    "rank_pattern",
    "alpha_pattern",
    "bias",
    "fan_in_fan_out",
    "use_dora",
    "modules_to_save",
};

bool is_one_of(const std::string& name, std::span<const char* const> names) {
  return std::ranges::any_of(names, [&](const char* other) { return name == other; });
}

// Null, false, and empty text or containers: the field is off.
bool is_off(const Json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty()) ||
         value == "";
}

// The initializations after which the model's own weights are what they were.
bool keeps_weights(const Json& how) {
  return how.is_null() || how.is_boolean() || how == "gaussian" || how == "eva" ||
         how == "orthogonal";
}

// A regular expression means what it says literally, '.' apart.
bool is_literal(std::string_view pattern) {
  return !pattern.empty() && pattern.find_first_of("\\*+?()[]{}|^$") == std::string_view::npos;
}

// {"q_proj": 16, ...} in the order of the file.
template <typename T>
Result<AdapterPattern<T>> read_pattern(const OrderedJson& json, const std::string& where,
                                       const char* key, T least, T most) {
  AdapterPattern<T> pattern;
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return pattern;
  if (!found->is_object() || found->size() > kMostPatterns)
    return input_error("{}: {}: expected an object of at most {} names", where, key, kMostPatterns);
  for (const auto& [name, value] : found->items()) {
    if (!is_literal(name))
      return input_error("{}: {}: \"{}\" is a regular expression, expected names of modules", where,
                         key, name.substr(0, 80));
    const bool number = std::is_integral_v<T> ? value.is_number_integer() : value.is_number();
    const double as_double = number ? value.template get<double>() : 0.0;
    if (!number || !(as_double >= static_cast<double>(least)) ||
        !(as_double <= static_cast<double>(most)))
      return input_error("{}: {}: {}: expected a number from {} to {}, found {}", where, key, name,
                         least, most, value.dump().substr(0, 80));
    pattern.emplace_back(name, value.template get<T>());
  }
  return pattern;
}

Error unsupported(const JsonFields& fields, const std::string& key, std::string_view why) {
  return input_error("{}: {}: {}", fields.where(), key, why);
}

Result<AdapterConfig> read_peft(const JsonFields& fields, const OrderedJson& ordered) {
  const std::string type = RK_TRY(fields.text("peft_type")).value_or("");
  if (type != "LORA") return fields.wrong("peft_type", "LORA");
  for (const auto& [key, value] : fields.json().items()) {
    if (is_one_of(key, kPeftNotes) || key.starts_with("unsloth") || is_off(value)) continue;
    return unsupported(fields, key,
                       fmt::format("{} is not supported, or not known here: expected it to be off",
                                   value.dump().substr(0, 80)));
  }
  if (RK_TRY(fields.boolean("use_dora")).value_or(false))
    return unsupported(fields, "use_dora", "DoRA is not supported, plain LoRA is");
  if (RK_TRY(fields.boolean("fan_in_fan_out")).value_or(false))
    return fields.wrong("fan_in_fan_out", "false");
  if (RK_TRY(fields.text("bias")).value_or("none") != "none") return fields.wrong("bias", "none");
  if (const Json* saved = fields.find("modules_to_save"); saved != nullptr && !is_off(*saved))
    return unsupported(
        fields, "modules_to_save",
        fmt::format("{}: whole modules are not read from adapters", saved->dump().substr(0, 80)));
  if (const Json* how = fields.find("init_lora_weights"); how != nullptr && !keeps_weights(*how))
    return unsupported(fields, "init_lora_weights",
                       fmt::format("{} changes the model's own weights: convert the adapter to "
                                   "plain LoRA (PEFT: save_pretrained(path_initial_model_for_weight"
                                   "_conversion=...))",
                                   how->dump().substr(0, 80)));
  AdapterConfig config;
  config.format = AdapterFormat::peft;
  const auto rank = RK_TRY(fields.integer("r", 1, kLargestAdapterRank));
  const auto alpha = RK_TRY(fields.number("lora_alpha", -kLargestAlpha, kLargestAlpha));
  if (!rank) return fields.wrong("r", fmt::format("an integer from 1 to {}", kLargestAdapterRank));
  if (!alpha) return fields.wrong("lora_alpha", "a number");
  config.rank = *rank;
  config.alpha = *alpha;
  config.rslora = RK_TRY(fields.boolean("use_rslora")).value_or(false);
  config.rank_pattern = RK_TRY(
      read_pattern<int64_t>(ordered, fields.where(), "rank_pattern", 1, kLargestAdapterRank));
  config.alpha_pattern = RK_TRY(read_pattern<double>(ordered, fields.where(), "alpha_pattern",
                                                     -kLargestAlpha, kLargestAlpha));
  return config;
}

Result<AdapterConfig> read_mlx(const JsonFields& fields) {
  const std::string type = RK_TRY(fields.text("fine_tune_type")).value_or("lora");
  if (type != "lora")
    return unsupported(fields, "fine_tune_type",
                       fmt::format("\"{}\" is not supported, lora is", type.substr(0, 80)));
  const auto parameters = RK_TRY(fields.object("lora_parameters"));
  if (!parameters) return fields.wrong("lora_parameters", "an object");
  for (const auto& [key, value] : parameters->json().items())
    if (key != "rank" && key != "scale" && key != "dropout" && key != "keys" && !is_off(value))
      return unsupported(*parameters, key, "it is not known here: expected rank, scale and keys");
  AdapterConfig config;
  config.format = AdapterFormat::mlx;
  const auto rank = RK_TRY(parameters->integer("rank", 1, kLargestAdapterRank));
  const auto scale = RK_TRY(parameters->number("scale", -kLargestAlpha, kLargestAlpha));
  if (!rank)
    return parameters->wrong("rank", fmt::format("an integer from 1 to {}", kLargestAdapterRank));
  if (!scale) return parameters->wrong("scale", "a number");
  config.rank = *rank;
  config.scale = *scale;
  // -1 and 0 mean all layers there.
  const auto layers = RK_TRY(fields.integer("num_layers", -1, kMostLayers));
  if (!layers) return fields.wrong("num_layers", "how many of the last layers have factors");
  config.last_layers = std::max<int64_t>(*layers, 0);
  if (const Json* keys = parameters->find("keys")) {
    if (!keys->is_array() || keys->size() > kMostPatterns || keys->empty())
      return parameters->wrong("keys", "an array of names");
    for (const Json& key : *keys) {
      if (!key.is_string()) return parameters->wrong("keys", "an array of names");
      config.keys.push_back(key.get<std::string>());
    }
  }
  return config;
}

bool matches(std::string_view pattern, std::string_view module) {
  if (pattern.size() > module.size()) return false;
  const size_t begin = module.size() - pattern.size();
  if (begin > 0 && module[begin - 1] != '.') return false;
  return std::equal(pattern.begin(), pattern.end(), module.begin() + static_cast<ptrdiff_t>(begin),
                    [](char p, char c) { return p == '.' || p == c; });
}

template <typename T>
T value_for(const AdapterPattern<T>& pattern, std::string_view module, T otherwise) {
  const auto found = std::ranges::find_if(
      pattern, [&](const auto& entry) { return matches(entry.first, module); });
  return found != pattern.end() ? found->second : otherwise;
}

}  // namespace

const char* adapter_format_name(AdapterFormat format) {
  return format == AdapterFormat::peft ? "PEFT" : "mlx-lm";
}

int64_t AdapterConfig::rank_of(std::string_view module) const {
  return value_for(rank_pattern, module, rank);
}

double AdapterConfig::scale_of(std::string_view module) const {
  if (format == AdapterFormat::mlx) return scale;
  const auto r = static_cast<double>(rank_of(module));
  return value_for(alpha_pattern, module, alpha) / (rslora ? std::sqrt(r) : r);
}

Result<AdapterConfig> parse_adapter_config(const std::string& text, const std::string& name) {
  const Json json = RK_TRY(parse_json(text, name));
  if (!json.is_object()) return input_error("{}: expected an object", name);
  const JsonFields fields(json, name);
  if (fields.has("peft_type")) {
    // The patterns' order matters; a text with NaN in it, which only parse_json reads, has none.
    const auto ordered = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!ordered.is_object()) return input_error("{}: not valid JSON", name);
    return read_peft(fields, ordered);
  }
  if (fields.has("fine_tune_type") || fields.has("lora_parameters")) return read_mlx(fields);
  return input_error(
      "{}: neither a configuration of PEFT (it has no peft_type) nor of mlx-lm (no "
      "lora_parameters)",
      name);
}

}  // namespace ringkeep::checkpoint
