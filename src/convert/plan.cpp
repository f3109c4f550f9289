#include "convert/plan.h"

#include <algorithm>

#include "checkpoint/families.h"
#include "checkpoint/json_fields.h"

namespace ringkeep::convert {
namespace {

using checkpoint::Json;
using quant::SourceType;

// The type that config.json gives, as mlx-lm takes it.
std::optional<SourceType> stated_dtype(const Json& config) {
  const auto text_config = config.find("text_config");
  for (const Json* object : {&config, text_config == config.end() ? nullptr : &*text_config}) {
    if (object == nullptr || !object->is_object()) continue;
    for (const char* key : {"torch_dtype", "dtype"}) {
      const auto found = object->find(key);
      if (found == object->end() || !found->is_string()) continue;
      if (const auto type = dtype_of(found->get<std::string>())) return type;
    }
  }
  return std::nullopt;
}

Status check_format(const checkpoint::Checkpoint& checkpoint) {
  if (checkpoint.format != checkpoint::Format::safetensors)
    return input_error(
        "{}: convert reads folders with config.json and safetensors; a GGUF file has other names "
        "and no config.json or tokenizer.json to go with them: convert the original checkpoint",
        checkpoint.path);
  return {};
}

Status check_source(const checkpoint::Checkpoint& checkpoint, const Json& config) {
  if (!checkpoint::is_known_family(checkpoint.config.family))
    return input_error(
        "{}: convert does not know the modules of the architecture \"{}\"; it knows "
        "{}",
        checkpoint.path, checkpoint.config.family, fmt::join(checkpoint::kFamilies, ", "));
  for (const char* key : {"quantization", "quantization_config"}) {
    const auto found = config.find(key);
    if (found != config.end() && !found->is_null())
      return input_error(
          "{}: its weights are quantized already ({} in config.json): convert the original",
          checkpoint.path, key);
  }
  return {};
}

void add_entry(PlannedModule& planned, std::string name, const char* type,
               std::vector<int64_t> shape, size_t element_bytes) {
  size_t bytes = element_bytes;
  for (const int64_t size : shape) bytes *= static_cast<size_t>(size);
  planned.bytes += bytes;
  planned.entries.push_back({std::move(name), type, std::move(shape), bytes});
}

const char* format_name(SourceType type) {
  return type == SourceType::f16 ? "F16" : type == SourceType::bf16 ? "BF16" : "F32";
}

void add_entries(PlannedModule& planned) {
  const Module& module = planned.module;
  if (planned.setting.keep()) {
    const quant::SourceTensor& source = module.parts.front();
    if (planned.type == SourceType::other) {  // carried as it is
      planned.bytes = source.bytes;
      planned.entries.push_back({module.name, source.type_name, module.shape, source.bytes});
      return;
    }
    add_entry(planned, module.name, format_name(planned.type), module.shape,
              dtype_bytes(planned.type));
    return;
  }
  const std::string base = module.module_name();
  std::vector<int64_t> words = module.shape;
  words.back() = words.back() * planned.setting.bits / 32;
  std::vector<int64_t> groups = module.shape;
  groups.back() /= planned.setting.group;
  add_entry(planned, base + ".weight", "U32", std::move(words), sizeof(uint32_t));
  for (const char* name : {".scales", ".biases"})
    add_entry(planned, base + name, format_name(planned.type), groups, dtype_bytes(planned.type));
}

// The setting of a module whose columns it fits, and the type of its floats.
Status settle(PlannedModule& planned, const std::vector<Override>& overrides,
              std::vector<bool>& used, Plan& plan) {
  const Module& module = planned.module;
  const SourceType stored = module.parts.front().type;
  planned.type = stored == SourceType::other ? stored : plan.dtype.value_or(stored);
  if (!module.matrix) return {};
  const Override* rule = nullptr;
  planned.setting = setting_of(module, plan.options.asked, overrides, used, &rule);
  if (planned.setting.keep() || module.shape.back() % planned.setting.group == 0) return {};
  if (rule != nullptr)
    return make_error(
        ErrorKind::usage, "--override {}: {} has {} columns, which groups of {} do not divide",
        rule->text(), module.module_name(), module.shape.back(), planned.setting.group);
  planned.setting = {};
  plan.uneven.push_back(module.module_name());
  return {};
}

void cut_shards(Plan& plan) {
  for (size_t i = 0; i < plan.modules.size(); ++i) {
    const size_t bytes = plan.modules[i].bytes;
    if (plan.shards.empty() ||
        plan.shards.back().bytes + bytes > static_cast<size_t>(plan.options.shard_bytes))
      plan.shards.push_back({.first = i, .last = i});
    Shard& shard = plan.shards.back();
    shard.last = i + 1;
    shard.bytes += bytes;
    plan.bytes += bytes;
  }
  const size_t count = plan.shards.size();
  for (size_t i = 0; i < count; ++i)
    plan.shards[i].file = count == 1
                              ? "model.safetensors"
                              : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, count);
}

}  // namespace

std::optional<SourceType> dtype_of(const std::string& name) {
  if (name == "f16" || name == "float16") return SourceType::f16;
  if (name == "bf16" || name == "bfloat16") return SourceType::bf16;
  if (name == "f32" || name == "float32") return SourceType::f32;
  return std::nullopt;
}

const char* dtype_text(SourceType type) {
  return type == SourceType::f16 ? "float16" : type == SourceType::bf16 ? "bfloat16" : "float32";
}

size_t dtype_bytes(SourceType type) { return type == SourceType::f32 ? 4 : 2; }

Result<Plan> make_plan(const checkpoint::Checkpoint& checkpoint, const std::string& config,
                       const Options& options) {
  RK_TRY(check_format(checkpoint));
  const Json json = RK_TRY(checkpoint::parse_json(config, checkpoint.path + "/config.json"));
  RK_TRY(check_source(checkpoint, json));
  Plan plan;
  plan.options = options;
  plan.dtype = options.dtype ? options.dtype : stated_dtype(json);
  std::vector<Override> overrides;
  for (const std::string& text : options.overrides)
    overrides.push_back(RK_TRY(Override::parse(text, options.asked.group)));
  std::vector<bool> used(overrides.size(), false);

  ModuleList list = RK_TRY(list_modules(checkpoint));
  plan.left_out = std::move(list.left_out);
  for (Module& module : list.modules) {
    PlannedModule planned{.module = std::move(module)};
    RK_TRY(settle(planned, overrides, used, plan));
    add_entries(planned);
    plan.modules.push_back(std::move(planned));
  }
  for (size_t i = 0; i < overrides.size(); ++i)
    if (!used[i])
      return make_error(ErrorKind::usage, "--override {}: matches no module of {}",
                        overrides[i].text(), checkpoint.path);
  cut_shards(plan);
  return plan;
}

}  // namespace ringkeep::convert
