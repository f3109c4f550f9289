#include "checkpoint/hf_rope.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "checkpoint/families.h"
#include "checkpoint/limits.h"

namespace ringkeep::checkpoint {

namespace {

// What frequencies of pairs that do not turn are divided by, as in GGUF files.
constexpr float kStill = 1e30f;

struct Defaults {
  std::string family;
  int64_t head_dim;
  int64_t context;
  double theta;
  double partial_rotary;
  std::optional<int64_t> original_context;  // at the top level of config.json; wins
};

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

Status read_yarn(const JsonFields& fields, RopeSpec& rope) {
  rope.scaling = RopeSpec::Scaling::yarn;
  rope.beta_fast = RK_TRY(fields.number("beta_fast", 1e-6, 1e6)).value_or(32.0);
  rope.beta_slow = RK_TRY(fields.number("beta_slow", 1e-6, 1e6)).value_or(1.0);
  const double mscale = RK_TRY(fields.number("mscale", 0, 1e6)).value_or(0.0);
  const double mscale_all = RK_TRY(fields.number("mscale_all_dim", 0, 1e6)).value_or(0.0);
  const double implied = mscale > 0.0 && mscale_all > 0.0 ? yarn_mscale(rope.factor, mscale) /
                                                                yarn_mscale(rope.factor, mscale_all)
                                                          : yarn_mscale(rope.factor, 1.0);
  rope.attention_factor = RK_TRY(fields.number("attention_factor", 1e-6, 1e6)).value_or(implied);
  if (rope.theta <= 1.0)
    return input_error("{}: yarn needs a rope_theta above 1, found {}", fields.where(), rope.theta);
  return {};
}

Result<std::vector<float>> read_factors(const JsonFields& fields, const char* key, int rotary_dim) {
  const Json* list = fields.find(key);
  const auto expected = fmt::format("an array of {} positive numbers", rotary_dim / 2);
  if (list == nullptr || !list->is_array() || list->size() != static_cast<size_t>(rotary_dim / 2))
    return fields.wrong(key, expected);
  std::vector<float> factors;
  for (const Json& entry : *list) {
    factors.push_back(entry.is_number() ? entry.get<float>() : 0.0f);
    if (!(factors.back() > 0.0f) || std::isinf(factors.back())) return fields.wrong(key, expected);
  }
  return factors;
}

// LongRoPE (Ding et al. 2024, arXiv 2402.13753), as Phi-3 and transformers have it.
Status read_longrope(const JsonFields& fields, const Defaults& defaults, RopeSpec& rope) {
  rope.scaling = RopeSpec::Scaling::longrope;
  for (const char* key : {"short_mscale", "long_mscale"})
    if (fields.has(key)) return fields.wrong(key, "none (attention_factor instead)");
  rope.factors = RK_TRY(read_factors(fields, "short_factor", rope.rotary_dim));
  rope.long_factors = RK_TRY(read_factors(fields, "long_factor", rope.rotary_dim));
  const auto own =
      RK_TRY(fields.integer("original_max_position_embeddings", 1, kLongestContext - 1));
  rope.original_context = static_cast<int>(defaults.original_context.value_or(
      own.value_or(defaults.family == "phi3" ? 4096 : defaults.context)));
  if (rope.original_context < 2)
    return input_error("{}: longrope scaling without original_max_position_embeddings",
                       fields.where());
  const double stretch =
      RK_TRY(fields.number("factor", 1e-6, kLargestScale))
          .value_or(static_cast<double>(defaults.context) / rope.original_context);
  const double implied =
      stretch > 1.0 ? std::sqrt(1.0 + std::log(stretch) / std::log(rope.original_context)) : 1.0;
  rope.attention_factor = RK_TRY(fields.number("attention_factor", 1e-6, 1e6)).value_or(implied);
  return {};
}

// Of the pairs of a head the first `rotary_dim / 2` turn, with the frequencies that they have in
// the whole head; the others stand still.
void rotate_in_proportion(int64_t head_dim, RopeSpec& rope) {
  const auto turning = static_cast<size_t>(rope.rotary_dim / 2);
  rope.rotary_dim = static_cast<int>(head_dim);
  rope.factors.assign(static_cast<size_t>(head_dim / 2), kStill);
  std::fill_n(rope.factors.begin(), turning, 1.0f);
}

// One set of parameters: `fields` is a rope_scaling or rope_parameters object.
Result<RopeSpec> read_one(const JsonFields& fields, const Defaults& defaults) {
  RopeSpec rope;
  rope.theta = RK_TRY(fields.number("rope_theta", 1.0, kLargestScale)).value_or(defaults.theta);
  const double partial =
      RK_TRY(fields.number("partial_rotary_factor", 0.0, 1.0)).value_or(defaults.partial_rotary);
  rope.rotary_dim = static_cast<int>(static_cast<double>(defaults.head_dim) * partial);
  const bool known = is_known_family(defaults.family);
  if (rope.rotary_dim % 2 != 0) {
    if (known)
      return input_error("{}: {} rotary dimensions, expected an even number", fields.where(),
                         rope.rotary_dim);
    --rope.rotary_dim;
  }

  auto type = RK_TRY(fields.text("rope_type"));
  if (!type) type = RK_TRY(fields.text("type"));
  if (!type || *type == "default") return rope;
  if (known && (*type == "longrope" || *type == "su")) {
    RK_TRY(read_longrope(fields, defaults, rope));
    return rope;
  }
  if (known && fields.has("long_factor"))
    return input_error("{}: \"{}\" scaling with long_factor, expected longrope", fields.where(),
                       *type);
  if (*type == "proportional") {
    rotate_in_proportion(defaults.head_dim, rope);
    rope.factor = RK_TRY(fields.number("factor", 1e-6, kLargestScale)).value_or(1.0);
    if (rope.factor != 1.0) rope.scaling = RopeSpec::Scaling::linear;
    return rope;
  }
  const bool with_context = *type == "llama3" || *type == "yarn";
  if (*type != "linear" && !with_context) {
    if (!known) return rope;
    return input_error(
        "{}: RoPE scaling \"{}\", expected default, linear, proportional, llama3, yarn or "
        "longrope",
        fields.where(), *type);
  }
  if (with_context) {
    const auto original =
        RK_TRY(fields.integer("original_max_position_embeddings", 1, kLongestContext - 1));
    rope.original_context =
        static_cast<int>(defaults.original_context.value_or(original.value_or(defaults.context)));
    if (rope.original_context < 1)
      return input_error("{}: {} scaling without original_max_position_embeddings", fields.where(),
                         *type);
  }
  auto factor = RK_TRY(fields.number("factor", 1e-6, kLargestScale));
  if (!factor && *type == "yarn" && defaults.context > 0)
    factor = static_cast<double>(defaults.context) / rope.original_context;
  if (!factor) return input_error("{}: {} scaling without a factor", fields.where(), *type);
  rope.factor = *factor;

  if (*type == "linear") {
    rope.scaling = RopeSpec::Scaling::linear;
  } else if (*type == "llama3") {
    rope.scaling = RopeSpec::Scaling::llama3;
    rope.low_freq_factor = RK_TRY(fields.number("low_freq_factor", 1e-6, 1e6)).value_or(1.0);
    rope.high_freq_factor = RK_TRY(fields.number("high_freq_factor", 1e-6, 1e6)).value_or(4.0);
    if (rope.high_freq_factor < rope.low_freq_factor)
      return input_error("{}: high_freq_factor {} must not be below low_freq_factor {}",
                         fields.where(), rope.high_freq_factor, rope.low_freq_factor);
  } else {
    rope.truncate = RK_TRY(fields.boolean("truncate")).value_or(true);
    RK_TRY(read_yarn(fields, rope));
  }
  return rope;
}

}  // namespace

Result<HfRope> read_hf_rope(const JsonFields& config, const std::string& family, int64_t head_dim,
                            int64_t context) {
  const bool gemma3 = family == "gemma3" || family == "gemma3n";
  double theta = gemma3 ? 1e6 : 10000.0;
  if (family == "smollm3") theta = 2e6;
  if (family == "olmo3" || family == "llama4") theta = 500000.0;
  if (family == "gpt_oss") theta = 150000.0;
  Defaults defaults{family, head_dim, std::min(context, kLongestContext - 1), 10000.0, 1.0, {}};
  defaults.theta = RK_TRY(config.number("rope_theta", 1.0, kLargestScale)).value_or(theta);
  defaults.partial_rotary = RK_TRY(config.number("partial_rotary_factor", 0.0, 1.0)).value_or(1.0);
  defaults.original_context =
      RK_TRY(config.integer("original_max_position_embeddings", 1, kLongestContext - 1));
  Defaults local = defaults;
  if (gemma3)
    local.theta =
        RK_TRY(config.number("rope_local_base_freq", 1.0, kLargestScale)).value_or(10000.0);

  const Json nothing = Json::object();
  const JsonFields none(nothing, config.where());
  const auto parameters = RK_TRY(config.object("rope_parameters"));
  const auto scaling = RK_TRY(config.object("rope_scaling"));

  HfRope rope;
  const auto per_type = [&](const char* key) -> Result<std::optional<JsonFields>> {
    if (!parameters || !(parameters->json().contains("full_attention") ||
                         parameters->json().contains("sliding_attention")))
      return std::optional<JsonFields>();
    const auto found = RK_TRY(parameters->object(key));
    return found ? found : std::optional<JsonFields>(none);
  };
  if (const auto full = RK_TRY(per_type("full_attention"))) {
    // An old rope_scaling beside new parameters belongs to the full layers.
    rope.full = RK_TRY(read_one(scaling && full->json().empty() ? *scaling : *full, defaults));
    rope.sliding = RK_TRY(read_one(*RK_TRY(per_type("sliding_attention")), local));
    return rope;
  }
  rope.full = RK_TRY(read_one(parameters ? *parameters : scaling ? *scaling : none, defaults));
  // Gemma 3, Gemma 3n and OLMo 3 scale their full layers alone; elsewhere all layers share one
  // embedding.
  rope.sliding = gemma3 || family == "olmo3" ? RK_TRY(read_one(none, local)) : rope.full;
  return rope;
}

}  // namespace ringkeep::checkpoint
