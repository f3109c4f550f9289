// `plan`: the cache of a model under the given flags, layer by layer, or every refusal. Needs no
// weights; nothing is allocated.
#include <algorithm>
#include <optional>

#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "cli/adapter_options.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "kernels/select/select.h"
#include "kv/plan.h"
#include "models/model.h"
#include "weights/adapter.h"
#include "weights/calibration.h"
#include "weights/decoder_weights.h"
#include "weights/expert_memory.h"

namespace ringkeep::cli {
namespace {

struct Options {
  ModelOptions model;
  CacheFlags cache;
  RuntimeOptions weights;  // only the weight flags and the adapters
};

// The packed size of the checkpoint's tensors, or nothing when they are not there.
std::optional<weights::PackedBytes> weight_bytes(const checkpoint::Checkpoint& checkpoint,
                                                 const weights::PackOptions& pack,
                                                 const kernels::Ops& ops) {
  if (checkpoint.table.tensors.empty()) return std::nullopt;
  const auto bytes = weights::packed_bytes(checkpoint, pack, ops);
  if (bytes.ok()) return *bytes;
  spdlog::warn("weights: {}", bytes.error().message);
  return std::nullopt;
}

// Activations of the largest step, for a model that can run.
std::optional<size_t> scratch_bytes(const ModelConfig& config, const kv::KvPlan& plan) {
  if (!plan.runnable()) return std::nullopt;
  return models::activation_bytes(config, std::max<int64_t>(plan.chunk, plan.parallel));
}

// Totals that the cache plan does not know.
struct Totals {
  std::optional<size_t> weights;
  std::optional<size_t> active_weights;  // of them, those of one token's experts and all others
  std::optional<size_t> adapters;        // factors
  std::optional<size_t> scratch;
  // Experts: packed, and of these in memory at most; bytes of the files' tensors that stay there.
  std::optional<size_t> experts, held_experts, mapped;
};

// What is held of the weights, and what stays in the file. Errors: of --expert-memory.
Status add_residence(std::optional<size_t> asked, const checkpoint::Checkpoint& checkpoint,
                     const weights::PackedBytes& bytes, const kv::KvPlan& plan, Totals& totals) {
  const size_t others = plan.kv_bytes + plan.kv_prefill_bytes + plan.prefix_cache_bytes +
                        totals.scratch.value_or(0) + totals.adapters.value_or(0);
  const size_t memory = RK_TRY(weights::expert_memory(bytes, checkpoint.config.experts_used, asked,
                                                      others, available_memory()));
  totals.experts = bytes.experts;
  totals.held_experts = weights::held_expert_bytes(bytes, memory);
  totals.mapped = weights::mapped_bytes(checkpoint, bytes, memory);
  return {};
}

// Factors and scratch of the adapters. Errors: of --adapter and of its files.
Status add_adapters(const std::vector<std::string>& texts, const ModelConfig& config,
                    const kv::KvPlan& plan, const kernels::Ops& ops, Totals& totals) {
  if (texts.empty()) return {};
  totals.adapters = 0;
  weights::AdapterSizes largest;
  for (const engine::AdapterOption& option : RK_TRY(parse_adapters(texts)).options) {
    const auto source = RK_TRY(weights::AdapterSource::open(option.path, option.scale, config));
    const auto sizes = RK_TRY(weights::adapter_sizes(source, ops));
    *totals.adapters += sizes.bytes;
    largest.grow(sizes);
  }
  if (totals.scratch)
    *totals.scratch +=
        models::adapter_scratch_bytes(largest, std::max<int64_t>(plan.chunk, plan.parallel));
  return {};
}

Json optional_json(bool present, int64_t value) { return present ? Json(value) : Json(nullptr); }

Json optional_bytes(std::optional<size_t> bytes) { return bytes ? Json(*bytes) : Json(nullptr); }

// The hot tier of a layer, whose bytes are part of the layer's max_bytes.
Json hot_json(const kv::KvPlan& plan, const kv::LayerPlan& layer) {
  if (layer.hot_group < 0) return nullptr;
  const kv::GroupPlan& hot = plan.groups[static_cast<size_t>(layer.hot_group)];
  return Json{{"k", describe(hot.geometry.k)},
              {"v", describe(hot.geometry.v)},
              {"max_tokens", hot.pages_decode * kernels::kPageTokens},
              {"max_bytes", hot.pages_decode * static_cast<int64_t>(hot.page_bytes)}};
}

Json layer_json(const kv::KvPlan& plan, const kv::LayerPlan& layer) {
  const bool own = layer.cache != kv::CacheClass::shared;
  const bool stored = layer.group >= 0;
  return Json{
      {"index", layer.index},
      {"kind", layer_kind_name(layer.kind)},
      {"window", optional_json(layer.window > 0, layer.window)},
      {"donor", optional_json(layer.donor >= 0, layer.donor)},
      {"cache", kv::cache_class_name(layer.cache)},
      {"k", stored ? Json(describe(layer.geometry.k)) : Json(nullptr)},
      {"v", stored ? Json(describe(layer.geometry.v)) : Json(nullptr)},
      {"hot", own ? hot_json(plan, layer) : Json(nullptr)},
      {"bytes_per_token",
       optional_json(own && stored, static_cast<int64_t>(layer.bytes_per_token))},
      {"max_tokens", optional_json(own && stored, layer.max_tokens)},
      {"max_bytes", optional_json(own && stored, static_cast<int64_t>(layer.max_bytes))},
  };
}

Json plan_json(const kv::KvPlan& plan, const Totals& totals) {
  Json layers = Json::array();
  for (const kv::LayerPlan& layer : plan.layers) layers.push_back(layer_json(plan, layer));
  Json refusals = Json::array();
  for (const kv::Refusal& refusal : plan.refusals)
    refusals.push_back(Json{{"layer", optional_json(refusal.layer >= 0, refusal.layer)},
                            {"cache", refusal.cache},
                            {"feature", refusal.feature},
                            {"reason", refusal.reason}});
  return Json{
      {"runnable", plan.runnable()},
      {"layers", std::move(layers)},
      {"totals",
       {{"weights_bytes", totals.weights ? Json(*totals.weights) : Json(nullptr)},
        {"adapter_bytes", totals.adapters.value_or(0)},
        {"weights_active_bytes",
         totals.active_weights ? Json(*totals.active_weights) : Json(nullptr)},
        {"expert_bytes", optional_bytes(totals.experts)},
        {"expert_memory_bytes", optional_bytes(totals.held_experts)},
        {"mapped_bytes", optional_bytes(totals.mapped)},
        {"kv_bytes", plan.kv_bytes},
        {"kv_prefill_bytes", plan.kv_prefill_bytes},
        {"prefix_cache_bytes", plan.prefix_cache_bytes},
        {"scratch_bytes", totals.scratch ? Json(*totals.scratch) : Json(nullptr)}}},
      {"budget",
       plan.budget > 0
           ? Json{{"bytes", plan.budget},
                  {"codec", plan.budget_codec.empty() ? Json(nullptr) : Json(plan.budget_codec)}}
           : Json(nullptr)},
      {"memory", plan.kv_memory > 0 ? Json{{"bytes", plan.kv_memory}, {"tokens", plan.pool_tokens}}
                                    : Json(nullptr)},
      {"notes", plan.notes},
      {"refusals", std::move(refusals)}};
}

void print_total(const char* name, std::optional<size_t> bytes) {
  fmt::print("{} {}\n", name, bytes ? human_bytes(static_cast<double>(*bytes)) : "unknown");
}

// With weights where they are; the configuration alone otherwise.
Result<checkpoint::Checkpoint> open_for_plan(const std::string& model) {
  Result<checkpoint::Checkpoint> full =
      checkpoint::open(model, {.weights = true, .tokenizer = false});
  if (full.ok()) return full;
  Result<checkpoint::Checkpoint> bare =
      checkpoint::open(model, {.weights = false, .tokenizer = false});
  if (bare.ok()) spdlog::info("planning without weights: {}", full.error().message);
  return bare;
}

Result<int> plan_command(const Options& options) {
  init_log(options.model.verbosity);
  const checkpoint::Checkpoint checkpoint = RK_TRY(open_for_plan(options.model.model));
  const kernels::Ops ops = kernels::cpu_backend();
  const kv::KvPlan plan = RK_TRY(kv::make_plan(checkpoint.config, options.cache, ops));
  // Layers that no build can run are told first: their refusals say more than the family's name.
  if (plan.runnable()) RK_TRY(models::check_family(checkpoint.config));
  if (!options.cache.kv_calibration.empty())
    RK_TRY(weights::load_calibration(options.cache.kv_calibration, checkpoint));
  Totals totals{.scratch = scratch_bytes(checkpoint.config, plan)};
  RK_TRY(add_adapters(options.weights.adapters, checkpoint.config, plan, ops, totals));
  const auto asked = RK_TRY(parse_expert_memory(options.weights.expert_memory));
  if (checkpoint.config.experts == 0) RK_TRY(weights::expert_memory({}, 0, asked, 0, 0));
  if (const auto bytes = weight_bytes(
          checkpoint, {options.weights.weight_bits, options.weights.weight_group}, ops)) {
    RK_TRY(add_residence(asked, checkpoint, *bytes, plan, totals));
    totals.weights = bytes->all;
    totals.active_weights =
        bytes->active(checkpoint.config.experts_used, checkpoint.config.experts);
  }
  if (options.model.json) {
    for (const std::string& warning : plan.warnings) spdlog::warn("{}", warning);
    print_json(plan_json(plan, totals));
  } else {
    kv::KvPlan shown = plan;
    shown.refusals.clear();  // they are the error
    fmt::print("{}", kv::format_plan(shown));
    print_total("weights", totals.weights);
    if (checkpoint.config.experts > 0)
      print_total(fmt::format("  active for a token ({} of {} experts a layer)",
                              checkpoint.config.experts_used, checkpoint.config.experts)
                      .c_str(),
                  totals.active_weights);
    if (totals.held_experts != totals.experts)
      print_total(fmt::format("  experts in memory, at most (of {}; --expert-memory)",
                              human_bytes(static_cast<double>(*totals.experts)))
                      .c_str(),
                  totals.held_experts);
    if (totals.mapped.value_or(0) > 0)
      print_total("  left in the mapped file, read as needed", totals.mapped);
    if (totals.adapters) print_total("adapters", totals.adapters);
    print_total("scratch", totals.scratch);
  }
  if (!plan.runnable()) return kv::refusal_error(plan);
  return 0;
}

}  // namespace

Command add_plan(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "plan", "show the cache layer by layer, or what is refused; no weights needed");
  auto options = std::make_shared<Options>();
  add_model_options(*command, options->model);
  add_json_option(*command, options->model);
  add_cache_options(*command, options->cache);
  add_context_option(*command, options->cache);
  add_prefix_cache_option(*command, options->cache);
  add_parallel_option(*command, options->cache);
  add_weight_options(*command, options->weights);
  add_adapter_option(*command, options->weights.adapters);
  return {command, [options] { return plan_command(*options); }};
}

}  // namespace ringkeep::cli
