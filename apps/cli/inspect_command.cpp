// `inspect`: what a checkpoint holds: metadata, and each tensor with the packed format that it is
// loaded into.
#include <optional>

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "cli/adapter_options.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "kernels/select/select.h"
#include "models/model.h"
#include "quant/source_tensor.h"
#include "weights/adapter.h"
#include "weights/decoder_weights.h"

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

// Of a mixture of experts: bytes of the packed weights, and of those that a token meets.
struct ExpertBytes {
  size_t all = 0;
  size_t active = 0;
};

Result<std::optional<ExpertBytes>> expert_bytes(const checkpoint::Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config;
  if (config.experts == 0 || !models::check_family(config).ok())
    return std::optional<ExpertBytes>();
  const auto bytes = RK_TRY(weights::packed_bytes(checkpoint, {}, kernels::cpu_backend()));
  return std::optional(ExpertBytes{bytes.all, bytes.active(config.experts_used, config.experts)});
}

void print_inspect_json(const checkpoint::Checkpoint& checkpoint,
                        const std::optional<ExpertBytes>& experts, Json adapters) {
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
                           {"repack", repack.fidelity}});
  }
  print_json(Json{{"format", format_name(checkpoint.format)},
                  {"path", checkpoint.path},
                  {"family", checkpoint.config.family},
                  {"layers", checkpoint.config.layers.size()},
                  {"vocab_size", checkpoint.config.vocab_size},
                  {"trained_context", checkpoint.config.trained_context},
                  {"experts", experts ? Json{{"count", checkpoint.config.experts},
                                             {"used", checkpoint.config.experts_used},
                                             {"weights_bytes", experts->all},
                                             {"active_bytes", experts->active}}
                                      : Json(nullptr)},
                  {"metadata", std::move(metadata)},
                  {"adapters", std::move(adapters)},
                  {"tensors", std::move(tensors)}});
}

void print_inspect_text(const checkpoint::Checkpoint& checkpoint,
                        const std::optional<ExpertBytes>& experts) {
  fmt::print("{} ({}), family {}, {} layers, vocabulary {}\n\n", checkpoint.path,
             format_name(checkpoint.format), checkpoint.config.family,
             checkpoint.config.layers.size(), checkpoint.config.vocab_size);
  if (experts)
    fmt::print("{} experts a layer, {} for a token: {} of {} packed weights active\n\n",
               checkpoint.config.experts, checkpoint.config.experts_used,
               human_bytes(static_cast<double>(experts->active)),
               human_bytes(static_cast<double>(experts->all)));
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
    fmt::print("{:<{}}  {:<10} {:<{}} {:>12}  {}: {}\n", name, name_width, tensor.type_name,
               shape_text(tensor.shape), shape_width, tensor.bytes, repack.fidelity, repack.packed);
  }
}

Result<int> inspect_command(const ModelOptions& options, const std::vector<std::string>& texts) {
  init_log(options.verbosity);
  const checkpoint::Checkpoint checkpoint = RK_TRY(checkpoint::open(options.model));
  const auto experts = RK_TRY(expert_bytes(checkpoint));
  const auto sources = RK_TRY(open_adapters(texts, checkpoint.config));
  Json adapters = RK_TRY(adapters_json(sources, kernels::cpu_backend()));
  if (options.json) {
    print_inspect_json(checkpoint, experts, std::move(adapters));
  } else {
    print_inspect_text(checkpoint, experts);
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
  return {command, [options, adapters] { return inspect_command(*options, *adapters); }};
}

}  // namespace ringkeep::cli
