#include "kv/budget.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

namespace ringkeep::kv {
namespace {

constexpr double kMostBytes = 70368744177664.0;  // 2^46

constexpr BudgetCodec kCodecs[] = {
    {"f16", 0.0},   {"8", 0.00030},    {"K8V6", 0.00036}, {"6", 0.00101},  {"K6V4", 0.00163},
    {"5", 0.00214}, {"K5V4", 0.00273}, {"4", 0.0107},     {"3.5", 0.0122}, {"3", 0.0304}};

// Bytes of a unit, or 0 for none that is known.
double unit_bytes(std::string unit) {
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (unit.empty() || unit == "B") return 1.0;
  const size_t power = std::string_view("KMGT").find(unit[0]);
  const std::string_view rest = std::string_view(unit).substr(1);
  if (power == std::string_view::npos || !(rest.empty() || rest == "B" || rest == "IB")) return 0.0;
  double bytes = 1.0;
  for (size_t i = 0; i <= power; ++i) bytes *= rest == "B" ? 1000.0 : 1024.0;
  return bytes;
}

bool bounded(LayerKind kind) { return kind == LayerKind::sliding || kind == LayerKind::chunked; }

// Whether rows of the layer are stored with the codec of sliding layers: a shared one's donor's.
bool uses_sliding(const KvPlan& plan, const LayerPlan& layer) {
  return bounded(layer.donor >= 0 ? plan.layers[static_cast<size_t>(layer.donor)].kind
                                  : layer.kind);
}

size_t total_bytes(const KvPlan& plan) { return plan.kv_bytes + plan.kv_prefill_bytes; }

std::string mix_name(const BudgetCodec& full, const BudgetCodec& sliding) {
  if (&full == &sliding) return full.name;
  return fmt::format("full={}+sliding={}", full.name, sliding.name);
}

Status check_alone(const CacheFlags& flags) {
  const char* other = flags.kv_bits != CacheFlags{}.kv_bits ? "--kv-bits"
                      : flags.kv_key_bits                   ? "--kv-key-bits"
                      : flags.kv_value_bits                 ? "--kv-value-bits"
                                                            : nullptr;
  if (other != nullptr)
    return make_error(ErrorKind::usage, "--kv-budget chooses the codecs: leave out {}", other);
  if (flags.kv_scheme != "hadamard")
    return make_error(ErrorKind::usage,
                      "--kv-budget chooses among hadamard codecs: leave out --kv-scheme {}",
                      flags.kv_scheme);
  return {};
}

}  // namespace

Result<size_t> parse_bytes(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  std::string_view unit(stop, static_cast<size_t>(end - stop));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  const double bytes = error == std::errc() ? value * unit_bytes(std::string(unit)) : 0.0;
  if (!(bytes >= 1.0 && bytes <= kMostBytes))
    return make_error(
        ErrorKind::usage,
        "\"{}\" is no number of bytes from 1 to 64T; write 512M, 2G or 1.5GiB (powers "
        "of 1024), or 500MB (of 1000)",
        text);
  return static_cast<size_t>(bytes);
}

std::span<const BudgetCodec> budget_codecs() { return kCodecs; }

double mix_cost(const KvPlan& plan, const BudgetCodec& full, const BudgetCodec& sliding,
                double full_weight) {
  double cost = 0, weights = 0;
  for (const LayerPlan& layer : plan.layers) {
    const bool is_sliding = uses_sliding(plan, layer);
    const double weight = is_sliding ? 1.0 : full_weight;
    cost += weight * (is_sliding ? sliding.cost : full.cost);
    weights += weight;
  }
  return weights > 0 ? cost / weights : 0.0;
}

Result<KvPlan> plan_for_budget(const ModelConfig& config, const CacheFlags& flags,
                               const kernels::Ops& ops) {
  RK_TRY(check_alone(flags));
  CacheFlags mix = flags;
  mix.kv_budget = 0;

  const auto any = [&](bool wanted) {
    return std::any_of(config.layers.begin(), config.layers.end(),
                       [&](const LayerSpec& layer) { return bounded(layer.kind) == wanted; });
  };
  const bool one_kind = !any(true) || !any(false);

  const double full_weight = flags.kv_hot == "none" ? 1.0 : kFullLayerWeight;

  std::optional<KvPlan> best, smallest, refused;
  double best_cost = 0;
  for (const BudgetCodec& full : kCodecs)
    for (const BudgetCodec& sliding : kCodecs) {
      if (one_kind && &full != &sliding) continue;
      mix.kv_bits = mix_name(full, sliding);
      KvPlan plan = RK_TRY(make_plan(config, mix, ops));
      plan.budget = flags.kv_budget;
      plan.budget_codec = mix.kv_bits;
      if (!plan.runnable()) {
        if (!refused) refused = std::move(plan);  // of f16: what no codec can mend
        continue;
      }
      const double cost = mix_cost(plan, full, sliding, full_weight);
      const auto better = [&](const KvPlan& other, double other_cost) {
        return cost != other_cost ? cost < other_cost : total_bytes(plan) < total_bytes(other);
      };
      if (!smallest || total_bytes(plan) < total_bytes(*smallest)) smallest = plan;
      if (total_bytes(plan) > flags.kv_budget || (best && !better(*best, best_cost))) continue;
      best = std::move(plan);
      best_cost = cost;
    }
  if (best) return std::move(*best);
  if (!smallest) return std::move(*refused);
  smallest->refusals.push_back(
      {-1, "", "kv-budget",
       fmt::format(
           "--kv-budget {} bytes is too small: the smallest cache, --kv-bits {}, takes {} "
           "bytes ({} while decoding and {} more while prefilling); lower --ctx, --parallel "
           "or --chunk, or bound it with --max-kv-size",
           flags.kv_budget, smallest->budget_codec, total_bytes(*smallest), smallest->kv_bytes,
           smallest->kv_prefill_bytes)});
  smallest->budget_codec.clear();
  return std::move(*smallest);
}

}  // namespace ringkeep::kv
