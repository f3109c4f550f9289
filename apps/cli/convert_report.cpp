#include "cli/convert_report.h"

#include <array>
#include <cmath>
#include <set>

#include "cli/output.h"

namespace ringkeep::cli {
namespace {

using convert::PlannedModule;

// Of all modules of a kind, or of all.
struct Tally {
  int64_t tensors = 0;
  int64_t weights = 0;
  size_t source_bytes = 0;
  size_t bytes = 0;
  std::set<std::string> stored;  // "4:64", "bfloat16", ...
  convert::ModuleError error;

  void add(const PlannedModule& planned, const convert::ModuleError* found) {
    ++tensors;
    weights += planned.module.weights();
    for (const auto& part : planned.module.parts) source_bytes += part.bytes;
    bytes += planned.bytes;
    stored.insert(how(planned));
    if (found == nullptr) return;
    error.squared += found->squared;
    error.weight += found->weight;
    error.output_squared += found->output_squared;
    error.output_weight += found->output_weight;
  }
  static std::string how(const PlannedModule& planned) {
    if (!planned.setting.keep())
      return fmt::format("{}:{}", planned.setting.bits, planned.setting.group);
    return planned.type == quant::SourceType::other ? planned.module.parts.front().type_name
                                                    : convert::dtype_text(planned.type);
  }
  double bits_per_weight() const {
    return weights > 0 ? 8.0 * static_cast<double>(bytes) / static_cast<double>(weights) : 0.0;
  }
};

// Root of the mean squared error over that of the weights; nullopt where nothing was rounded.
std::optional<double> relative(double squared, double weight) {
  return weight > 0 ? std::optional(std::sqrt(squared / weight)) : std::nullopt;
}

struct Tallies {
  std::array<Tally, convert::kKinds> kinds;
  Tally total;
};

Tallies tally(const convert::Plan& plan, const std::optional<convert::Outcome>& outcome) {
  Tallies tallies;
  for (size_t m = 0; m < plan.modules.size(); ++m) {
    const auto* error = outcome ? &outcome->errors[m] : nullptr;
    tallies.kinds[static_cast<size_t>(plan.modules[m].module.kind)].add(plan.modules[m], error);
    tallies.total.add(plan.modules[m], error);
  }
  return tallies;
}

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json tally_json(const Tally& tally) {
  return {{"tensors", tally.tensors},
          {"weights", tally.weights},
          {"source_bytes", tally.source_bytes},
          {"bytes", tally.bytes},
          {"bits_per_weight", tally.bits_per_weight()},
          {"stored", tally.stored},
          {"weight_error", optional_json(relative(tally.error.squared, tally.error.weight))},
          {"output_error",
           optional_json(relative(tally.error.output_squared, tally.error.output_weight))}};
}

void print_json_report(const ConvertReport& report, const Tallies& tallies,
                       const std::optional<convert::Outcome>& outcome) {
  const convert::Plan& plan = report.plan;
  Json kinds = Json::array();
  for (int k = 0; k < convert::kKinds; ++k) {
    const Tally& tally = tallies.kinds[static_cast<size_t>(k)];
    if (tally.tensors == 0) continue;
    Json row{{"kind", convert::kind_name(static_cast<convert::Kind>(k))}};
    row.update(tally_json(tally));
    kinds.push_back(std::move(row));
  }
  Json modules = Json::array();
  for (const PlannedModule& planned : plan.modules) {
    if (!planned.module.matrix) continue;
    modules.push_back({{"name", planned.module.module_name()},
                       {"kind", convert::kind_name(planned.module.kind)},
                       {"shape", planned.module.shape},
                       {"stored", Tally::how(planned)},
                       {"bytes", planned.bytes}});
  }
  Json shards = Json::array();
  for (size_t i = 0; i < plan.shards.size(); ++i)
    shards.push_back({{"file", plan.shards[i].file},
                      {"bytes", plan.shards[i].bytes},
                      {"sha256", outcome ? Json(outcome->shards[i]) : Json(nullptr)}});
  print_json(
      {{"source", report.source},
       {"destination", report.destination},
       {"dry_run", !outcome},
       {"bits", plan.options.asked.bits},
       {"group", plan.options.asked.group},
       {"dtype", plan.dtype ? Json(convert::dtype_text(*plan.dtype)) : Json(nullptr)},
       {"rounding", plan.options.method == quant::AffineMethod::search ? "search" : "min-max"},
       {"calibration", report.calibration.empty() ? Json(nullptr) : Json(report.calibration)},
       {"kinds", std::move(kinds)},
       {"total", tally_json(tallies.total)},
       {"modules", std::move(modules)},
       {"shards", std::move(shards)},
       {"resumed_shards", outcome ? Json(outcome->resumed) : Json(nullptr)},
       {"copied", outcome ? Json(outcome->copied) : Json(nullptr)},
       {"left_out", plan.left_out}});
}

void print_row(const std::string& name, const Tally& tally, bool with_error) {
  std::string error;
  if (with_error) {
    const auto value = relative(tally.error.squared, tally.error.weight);
    error = value ? fmt::format("  {:6.3f} %", 100.0 * *value) : "         ";
  }
  fmt::print("{:<16} {:>7} {:>13} {:>10} {:>10} {:>8.3f}{}  {}\n", name, tally.tensors,
             tally.weights, human_bytes(static_cast<double>(tally.source_bytes)),
             human_bytes(static_cast<double>(tally.bytes)), tally.bits_per_weight(), error,
             fmt::join(tally.stored, " "));
}

}  // namespace

void print_convert_report(const ConvertReport& report,
                          const std::optional<convert::Outcome>& outcome, bool json) {
  const Tallies tallies = tally(report.plan, outcome);
  if (json) return print_json_report(report, tallies, outcome);
  const bool errors = outcome.has_value();
  fmt::print("{:<16} {:>7} {:>13} {:>10} {:>10} {:>8}{}  stored\n", "kind", "tensors", "weights",
             "from", "to", "bits/w", errors ? "    error" : "");
  for (int k = 0; k < convert::kKinds; ++k)
    if (const Tally& tally = tallies.kinds[static_cast<size_t>(k)]; tally.tensors > 0)
      print_row(convert::kind_name(static_cast<convert::Kind>(k)), tally, errors);
  print_row("total", tallies.total, errors);
  if (outcome)
    if (const auto value =
            relative(tallies.total.error.output_squared, tallies.total.error.output_weight))
      fmt::print("error weighed by the inputs: {:.3f} %\n", 100.0 * *value);
  for (const std::string& name : report.plan.left_out) fmt::print("left out: {}\n", name);
  const size_t shards = report.plan.shards.size();
  if (!outcome) {
    fmt::print("{}: would have {} file{} of tensors\n", report.destination, shards,
               shards == 1 ? "" : "s");
    return;
  }
  fmt::print(
      "{}: {} file{} of tensors{}, read back and compared\n", report.destination, shards,
      shards == 1 ? "" : "s",
      outcome->resumed > 0 ? fmt::format(" ({} from an earlier run)", outcome->resumed) : "");
}

}  // namespace ringkeep::cli
