// `inspect`: what a checkpoint holds: metadata, and each tensor with the packed format that it is
// loaded into.
#include <optional>

#include "base/log.h"
#include "base/mapped_file.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "cli/adapter_options.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/mlx_cache.h"
#include "engine/saved_state.h"
#include "kernels/select/select.h"
#include "models/model.h"
#include "quant/source_tensor.h"
#include "weights/adapter.h"
#include "weights/decoder_weights.h"
#include "weights/expert_memory.h"

namespace ringkeep::cli {
namespace {

// How a tensor is held after loading.
struct Repack {
  std::string packed;
  std::string fidelity;  // "exact", or "unsupported"
};

Repack repack_of(const quant::SourceTensor& tensor) {
  // A stack of matrices is held as one after the other.
  const bool stack = tensor.shape.size() == 3 && tensor.shape[0] > 0;
  const Result<quant::WeightSpec> spec =
      quant::spec_of(stack ? quant::matrix_of(tensor, 0) : tensor);
  if (!spec.ok()) return {spec.error().message, "unsupported"};
  if (tensor.shape.size() < 2) return {"float32 vector", "exact"};
  return {quant::describe(*spec), "exact"};
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

const char* format_name(checkpoint::Format format) {
  return format == checkpoint::Format::gguf ? "gguf" : "safetensors";
}

// The adapters of --adapter, checked against the model.
Result<std::vector<weights::AdapterSource>> open_adapters(const std::vector<std::string>& texts,
                                                          const ModelConfig& config) {
  std::vector<weights::AdapterSource> sources;
  for (const engine::AdapterOption& option : RK_TRY(parse_adapters(texts)).options)
    sources.push_back(RK_TRY(weights::AdapterSource::open(option.path, option.scale, config)));
  return sources;
}

Result<Json> adapters_json(const std::vector<weights::AdapterSource>& sources,
                           const kernels::Ops& ops) {
  Json out = Json::array();
  for (const weights::AdapterSource& source : sources) {
    Json modules = Json::array();
    for (const auto& pair : source.pairs())
      modules.push_back(Json{{"module", pair.module},
                             {"rank", pair.rank},
                             {"scale", pair.scale},
                             {"outputs", pair.outputs},
                             {"inputs", pair.inputs}});
    out.push_back(Json{{"path", source.file().path},
                       {"format", checkpoint::adapter_format_name(source.file().config.format)},
                       {"sha256", source.sha256()},
                       {"bytes", RK_TRY(weights::adapter_sizes(source, ops)).bytes},
                       {"modules", std::move(modules)}});
  }
  return out;
}

void print_adapters(const Json& adapters) {
  for (const Json& adapter : adapters) {
    fmt::print("\n{} ({}), {} once loaded\n", adapter["path"].get<std::string>(),
               adapter["format"].get<std::string>(), human_bytes(adapter["bytes"].get<double>()));
    for (const Json& pair : adapter["modules"])
      fmt::print("{}  [{}, {}], rank {}, scale {:g}\n", pair["module"].get<std::string>(),
                 pair["outputs"].get<int64_t>(), pair["inputs"].get<int64_t>(),
                 pair["rank"].get<int64_t>(), pair["scale"].get<double>());
  }
}

// What of the weights is in memory, without any cache beside them, and what stays in the file.
struct Residence {
  weights::PackedBytes bytes;
  size_t expert_memory = SIZE_MAX;  // PackOptions::expert_memory
  // Where a tensor is once the model is loaded.
  const char* place(const std::string& tensor) const {
    return weights::is_mapped(tensor, bytes, expert_memory) ? "file" : "memory";
  }
  size_t held() const { return weights::held_expert_bytes(bytes, expert_memory); }
};

// Nothing where the model cannot be run.
Result<std::optional<Residence>> residence_of(const checkpoint::Checkpoint& checkpoint,
                                              const std::string& expert_memory) {
  const auto asked = RK_TRY(parse_expert_memory(expert_memory));
  if (!models::check_family(checkpoint.config).ok()) return std::optional<Residence>();
  auto bytes = weights::packed_bytes(checkpoint, {}, kernels::cpu_backend());
  if (!bytes.ok()) {
    if (checkpoint.config.experts == 0) return std::optional<Residence>();
    return std::move(bytes).error();
  }
  Residence out{.bytes = std::move(*bytes)};
  out.expert_memory = RK_TRY(weights::expert_memory(out.bytes, checkpoint.config.experts_used,
                                                    asked, 0, available_memory()));
  return std::optional(std::move(out));
}

size_t active_bytes(const ModelConfig& config, const Residence& residence) {
  return residence.bytes.active(config.experts_used, config.experts);
}

void print_inspect_json(const checkpoint::Checkpoint& checkpoint,
                        const std::optional<Residence>& residence, Json adapters) {
  const ModelConfig& config = checkpoint.config;
  Json metadata = Json::object();
  for (const auto& [key, value] : checkpoint.metadata) metadata[key] = value;
  Json tensors = Json::array();
  for (const auto& [name, tensor] : checkpoint.table.tensors) {
    const Repack repack = repack_of(tensor);
    tensors.push_back(Json{{"name", name},
                           {"type", tensor.type_name},
                           {"shape", tensor.shape},
                           {"bytes", tensor.bytes},
                           {"packed", repack.packed},
                           {"repack", repack.fidelity},
                           {"held_in", residence ? Json(residence->place(name)) : Json(nullptr)}});
  }
  print_json(Json{{"format", format_name(checkpoint.format)},
                  {"path", checkpoint.path},
                  {"family", checkpoint.config.family},
                  {"layers", checkpoint.config.layers.size()},
                  {"vocab_size", checkpoint.config.vocab_size},
                  {"trained_context", checkpoint.config.trained_context},
                  {"experts", residence && config.experts > 0
                                  ? Json{{"count", config.experts},
                                         {"used", config.experts_used},
                                         {"weights_bytes", residence->bytes.all},
                                         {"active_bytes", active_bytes(config, *residence)},
                                         {"expert_bytes", residence->bytes.experts},
                                         {"memory_bytes", residence->held()}}
                                  : Json(nullptr)},
                  {"metadata", std::move(metadata)},
                  {"adapters", std::move(adapters)},
                  {"tensors", std::move(tensors)}});
}

void print_inspect_text(const checkpoint::Checkpoint& checkpoint,
                        const std::optional<Residence>& residence) {
  fmt::print("{} ({}), family {}, {} layers, vocabulary {}\n\n", checkpoint.path,
             format_name(checkpoint.format), checkpoint.config.family,
             checkpoint.config.layers.size(), checkpoint.config.vocab_size);
  const ModelConfig& config = checkpoint.config;
  if (residence && config.experts > 0) {
    fmt::print("{} experts a layer, {} for a token: {} of {} packed weights active\n",
               config.experts, config.experts_used,
               human_bytes(static_cast<double>(active_bytes(config, *residence))),
               human_bytes(static_cast<double>(residence->bytes.all)));
    fmt::print("experts: {} of {} in memory at most{}\n\n",
               human_bytes(static_cast<double>(residence->held())),
               human_bytes(static_cast<double>(residence->bytes.experts)),
               residence->expert_memory == SIZE_MAX ? "" : ", the others stay in the mapped file");
  }
  for (const auto& [key, value] : checkpoint.metadata) fmt::print("{} = {}\n", key, value);
  size_t name_width = 4;
  size_t shape_width = 5;
  for (const auto& [name, tensor] : checkpoint.table.tensors) {
    name_width = std::max(name_width, name.size());
    shape_width = std::max(shape_width, shape_text(tensor.shape).size());
  }
  fmt::print("\n{:<{}}  {:<10} {:<{}} {:>12}  repack\n", "name", name_width, "type", "shape",
             shape_width, "bytes");
  for (const auto& [name, tensor] : checkpoint.table.tensors) {
    const Repack repack = repack_of(tensor);
    const bool mapped = residence && std::string_view(residence->place(name)) == "file";
    fmt::print("{:<{}}  {:<10} {:<{}} {:>12}  {}: {}{}\n", name, name_width, tensor.type_name,
               shape_text(tensor.shape), shape_width, tensor.bytes, repack.fidelity, repack.packed,
               mapped ? ", in the mapped file" : "");
  }
}

// A cache in a file, ours or mlx-lm's, which is no model.
bool is_saved_cache(const std::string& path) {
  const auto file = MappedFile::open(path);
  if (!file.ok()) return false;
  const auto parsed = checkpoint::parse_safetensors(file->bytes(), path);
  if (!parsed.ok()) return false;
  const auto of_mlx = engine::holds_mlx_cache(file->bytes(), path);
  return engine::is_saved_state(parsed->metadata) || (of_mlx.ok() && *of_mlx);
}

Result<int> inspect_command(const ModelOptions& options, const std::vector<std::string>& texts,
                            const std::string& expert_memory) {
  init_log(options.verbosity);
  auto opened = checkpoint::open(options.model);
  if (!opened.ok() && is_saved_cache(options.model))
    return input_error("{}: a saved cache, which `ringkeep cache inspect` shows", options.model);
  const checkpoint::Checkpoint checkpoint = RK_TRY(std::move(opened));
  const auto residence = RK_TRY(residence_of(checkpoint, expert_memory));
  const auto sources = RK_TRY(open_adapters(texts, checkpoint.config));
  Json adapters = RK_TRY(adapters_json(sources, kernels::cpu_backend()));
  if (options.json) {
    print_inspect_json(checkpoint, residence, std::move(adapters));
  } else {
    print_inspect_text(checkpoint, residence);
    print_adapters(adapters);
  }
  return 0;
}

}  // namespace

Command add_inspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "print metadata and tensors");
  auto options = std::make_shared<ModelOptions>();
  auto adapters = std::make_shared<std::vector<std::string>>();
  add_model_options(*command, *options);
  add_json_option(*command, *options);
  add_adapter_option(*command, *adapters);
  auto expert_memory = std::make_shared<std::string>("auto");
  add_expert_memory_option(*command, *expert_memory);
  return {command, [=] { return inspect_command(*options, *adapters, *expert_memory); }};
}

}  // namespace ringkeep::cli
