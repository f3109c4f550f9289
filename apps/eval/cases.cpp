#include "eval/cases.h"

#include "kv/codec_flags.h"
#include "kv/plan.h"

namespace ringkeep::eval {
namespace {

// CODEC, or the part of full=CODEC+sliding=CODEC that holds for `kind`.
std::string codec_of_kind(const std::string& codec, const std::string& kind) {
  const size_t at = codec.find(kind + "=");
  if (at == std::string::npos) return codec;
  const size_t begin = at + kind.size() + 1;
  return codec.substr(begin, codec.find('+', begin) - begin);
}

int bits_of(const kernels::KvCodec& codec) {
  return codec.scheme == kernels::KvScheme::f16 ? 16 : codec.bits;
}

// Fills in what the plan says. Refusals are added to `refused`.
Status plan_case(Case& c, const ModelConfig& config, const kernels::Ops& ops,
                 std::string& refused) {
  const auto plan = RK_TRY(kv::make_plan(config, c.flags, ops));
  if (!plan.runnable()) {
    refused += fmt::format("{}codec {}: {}", refused.empty() ? "" : "\n", c.codec,
                           kv::refusal_error(plan).message);
    return {};
  }
  c.warnings = plan.warnings;
  c.kv_bytes = static_cast<int64_t>(plan.kv_bytes);
  c.is_f16 = true;
  bool first = true;
  for (const auto& layer : plan.layers) {
    const int k = bits_of(layer.geometry.k), v = bits_of(layer.geometry.v);
    c.is_f16 = c.is_f16 && k == 16 && v == 16;
    if (first) {
      c.k_bits = k;
      c.v_bits = v;
    }
    if (c.k_bits != k) c.k_bits.reset();
    if (c.v_bits != v) c.v_bits.reset();
    first = false;
  }
  return {};
}

Status plan_all(std::vector<Case>& cases, const ModelConfig& config, const kernels::Ops& ops) {
  std::string refused;
  for (Case& c : cases) RK_TRY(plan_case(c, config, ops, refused));
  if (!refused.empty()) return Error{ErrorKind::refused, refused};
  return {};
}

}  // namespace

std::string Case::key() const {
  return fmt::format("{} {}{}{}{}", part, flags.kv_bits,
                     flags.kv_key_bits ? " K" + *flags.kv_key_bits : "",
                     flags.kv_value_bits ? " V" + *flags.kv_value_bits : "", exact ? " exact" : "");
}

bool has_kind(const ModelConfig& config, const std::string& kind) {
  for (const auto& layer : config.layers) {
    const bool bounded = layer.kind == LayerKind::sliding || layer.kind == LayerKind::chunked;
    if (layer.kind == LayerKind::full ? kind == "full" : bounded && kind == "sliding") return true;
  }
  return false;
}

CacheFlags flags_of_part(const CacheFlags& base, const std::string& codec,
                         const std::string& part) {
  CacheFlags flags = base;
  flags.kv_bits = codec;
  if (part == "K") flags.kv_value_bits = "f16";
  if (part == "V") flags.kv_key_bits = "f16";
  if (part == "sliding") flags.kv_bits = "full=f16+sliding=" + codec_of_kind(codec, part);
  if (part == "full") flags.kv_bits = "full=" + codec_of_kind(codec, part) + "+sliding=f16";
  return flags;
}

Result<std::vector<Case>> make_cases(std::span<const std::string> codecs, const std::string& only,
                                     const CacheFlags& base, bool exact, const ModelConfig& config,
                                     const kernels::Ops& ops) {
  std::vector<Case> cases;
  for (const std::string& codec : codecs) {
    // Checked as it was written, before parts are made of it.
    CacheFlags written = base;
    written.kv_bits = codec;
    for (const LayerKind kind : {LayerKind::full, LayerKind::sliding})
      RK_TRY(kv::codec_for(written, kind, "--codecs"));
    const std::string part = only.empty() ? "all" : only;
    cases.push_back(
        {.codec = codec, .part = part, .flags = flags_of_part(base, codec, part), .exact = exact});
  }
  RK_TRY(plan_all(cases, config, ops));
  return cases;
}

Result<std::vector<Case>> make_ablation(std::span<const Case> cases, const CacheFlags& base,
                                        const ModelConfig& config, const kernels::Ops& ops) {
  std::vector<std::string> parts = {"K", "V"};
  if (has_kind(config, "sliding") && has_kind(config, "full"))
    parts.insert(parts.end(), {"sliding", "full"});
  std::vector<Case> out;
  for (const Case& c : cases) {
    if (c.is_f16) continue;
    for (const std::string& part : parts)
      out.push_back({.codec = c.codec,
                     .part = part,
                     .flags = flags_of_part(base, c.codec, part),
                     .exact = c.exact});
  }
  RK_TRY(plan_all(out, config, ops));
  return out;
}

Case reference_case(const CacheFlags& base, bool exact) {
  Case c{.codec = "f16", .flags = base, .exact = exact, .is_f16 = true};
  c.flags.kv_bits = "f16";
  return c;
}

}  // namespace ringkeep::eval
