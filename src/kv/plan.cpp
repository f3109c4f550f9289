#include "kv/plan.h"

#include <algorithm>
#include <array>
#include <limits>

#include "kv/budget.h"
#include "kv/codec_flags.h"
#include "kv/plan_groups.h"

namespace ringkeep::kv {
namespace {

using kernels::KvCodec;
using kernels::KvGeometry;
using kernels::KvScheme;

constexpr int64_t kDefaultContext = 4096;
constexpr int kMaxParallel = 1 << 16;
constexpr int kMaxHeads = 1 << 16;
constexpr int kMaxHeadDim = 1 << 16;

Status check_range(const char* flag, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  return make_error(ErrorKind::usage, "{} {}: expected {} to {}", flag, value, low, high);
}

Status check_flags(const CacheFlags& flags) {
  RK_TRY(check_range("--ctx", flags.ctx, 0, kMaxIndices));
  RK_TRY(check_range("--max-kv-size", flags.max_kv_size, 0, kMaxIndices));
  RK_TRY(check_range("--keep", flags.keep, 0, kMaxIndices));
  RK_TRY(check_range("--quantized-kv-start", flags.quantized_kv_start, 0, kMaxIndices));
  RK_TRY(check_range("--chunk", flags.chunk, 1, kMaxIndices));
  RK_TRY(check_range("the rollback margin", flags.rollback, 0, kMaxIndices));
  RK_TRY(check_range("--parallel", flags.parallel, 1, kMaxParallel));
  if (flags.kv_memory > 0 && flags.kv_budget > 0)
    return make_error(
        ErrorKind::usage,
        "--kv-budget chooses codecs for the whole of --parallel sequences, --kv-memory "
        "makes them share less: give one of them");
  RK_TRY(check_range("--prefix-cache-bytes", flags.prefix_cache_bytes, -1,
                     std::numeric_limits<int64_t>::max()));
  if (flags.keep > 0 && flags.max_kv_size == 0)
    return make_error(ErrorKind::usage,
                      "--keep {} pins first tokens of a bounded cache; give --max-kv-size N too, "
                      "with N larger than {}",
                      flags.keep, flags.keep);
  return {};
}

// Bits of the hot tier; 0: none.
Result<int> hot_bits(const CacheFlags& flags) {
  const std::string& text = flags.kv_hot.value_or("8");
  if (text == "none") return 0;
  if (text == "8") return 8;
  if (text == "f16") return 16;
  return make_error(ErrorKind::usage, "--kv-hot {}: expected none, 8 or f16", text);
}

class Planner {
 public:
  Planner(const ModelConfig& config, const CacheFlags& flags, const kernels::Ops& ops)
      : config_(config), flags_(flags), ops_(ops), groups_(plan_, ops) {}

  Result<KvPlan> make() {
    full_ = RK_TRY(codec_for(flags_, LayerKind::full));
    sliding_ = RK_TRY(codec_for(flags_, LayerKind::sliding));
    hot_bits_ = RK_TRY(hot_bits(flags_));
    settle_sizes();
    settle_codecs();
    for (size_t i = 0; i < config_.layers.size(); ++i) plan_layer(static_cast<int>(i));
    groups_.add_totals(flags_.kv_memory);
    groups_.add_snapshots(flags_.prefix_cache_bytes);
    note_values_from_keys();
    warn_about_groups();
    warn_about_hot();
    return std::move(plan_);
  }

 private:
  bool any_quantized() const { return full_.quantized() || sliding_.quantized(); }

  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) {
    plan_.warnings.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  void refuse(const LayerPlan& layer, std::string feature, std::string reason) {
    plan_.refusals.push_back(
        {layer.index, cache_class_name(layer.cache), std::move(feature), std::move(reason)});
  }

  void settle_sizes() {
    const int64_t trained = config_.trained_context;
    plan_.ctx = flags_.ctx > 0 ? flags_.ctx
                : trained > 0  ? std::min(trained, kDefaultContext)
                               : kDefaultContext;
    plan_.max_kv_size = flags_.max_kv_size;
    plan_.parallel = flags_.parallel;
    plan_.chunk = std::min(flags_.chunk, plan_.max_length());
    plan_.rollback = std::min(flags_.rollback, plan_.max_length());
    if (flags_.max_kv_size > 0 && flags_.max_kv_size <= flags_.keep)
      plan_.refusals.push_back(
          {-1, cache_class_name(CacheClass::bounded), "max-kv-size",
           fmt::format("--max-kv-size {} leaves no room for new tokens beside --keep {}; the size "
                       "counts the kept tokens and must be larger, {} at least",
                       flags_.max_kv_size, flags_.keep, flags_.keep + 1)});
    if (config_.layers.empty())
      plan_.refusals.push_back({-1, "", feature_name(Feature::run), "the model has no layers"});
    if (plan_.max_kv_size > 0 && flags_.ctx > 0)
      warn("--ctx {} does not limit a sequence: --max-kv-size {} bounds the cache instead",
           flags_.ctx, flags_.max_kv_size);
    else if (plan_.max_kv_size == 0 && trained > 0 && plan_.ctx > trained)
      warn("--ctx {} is beyond the {} tokens that the model was trained on", plan_.ctx, trained);
  }

  void settle_codecs() {
    if (!flags_.kv_calibration.empty() && full_.k.scheme != KvScheme::hadamard &&
        sliding_.k.scheme != KvScheme::hadamard)
      warn("--kv-calibration has no effect: no layer has hadamard keys (--kv-bits {})",
           flags_.kv_bits);
    if (!any_quantized()) {
      if (flags_.quantized_kv_start > 0)
        warn("--quantized-kv-start {} has no effect: no layer is quantized (--kv-bits {})",
             flags_.quantized_kv_start, flags_.kv_bits);
      if (flags_.kv_scheme != "hadamard" || flags_.kv_group_size != 0)
        warn("--kv-scheme and --kv-group-size have no effect: no layer is quantized (--kv-bits {})",
             flags_.kv_bits);
      return;
    }
    plan_.quantized_start = flags_.quantized_kv_start;
    if (plan_.quantized_start > 0 && !plan_.crosses_start())
      warn("--quantized-kv-start {} is not reached within --ctx {}: the cache stays f16",
           plan_.quantized_start, plan_.ctx);
    if (full_.k.bits == 2 || sliding_.k.bits == 2)
      warn("2 bits for K: expect wrong text from small models; K3V2 (2.5) or 3 is safer");
  }

  void plan_layer(int index) {
    const LayerSpec& spec = config_.layers[static_cast<size_t>(index)];
    plan_.layers.emplace_back();
    LayerPlan& layer = plan_.layers.back();
    layer.index = index;
    layer.kind = spec.kind;
    switch (spec.kind) {
      case LayerKind::full:
        if (plan_.max_kv_size > 0) {
          layer.cache = CacheClass::bounded;
          layer.keep = flags_.keep;
          layer.window = std::max<int64_t>(1, plan_.max_kv_size - flags_.keep);
        }
        break;
      case LayerKind::sliding: layer.cache = CacheClass::ring; break;
      case LayerKind::chunked: layer.cache = CacheClass::chunked; break;
      case LayerKind::shared: layer.cache = CacheClass::shared; break;
      case LayerKind::recurrent: layer.cache = CacheClass::recurrent; break;
      case LayerKind::latent: layer.cache = CacheClass::latent; break;
      case LayerKind::cacheless: layer.cache = CacheClass::none; break;
    }
    if (spec.kind == LayerKind::sliding || spec.kind == LayerKind::chunked) {
      if (spec.window < 1) {
        refuse(layer, "run",
               fmt::format("its window is {}, expected 1 token or more", spec.window));
        return;
      }
      layer.window = std::min(spec.window, kMaxIndices);
    }
    if (spec.kind == LayerKind::chunked) layer.chunk_size = layer.window;
    if (plan_.max_kv_size > 0) bound_window(layer);
    require_features(layer, spec);
    if (spec.kind == LayerKind::shared) return plan_shared(layer, spec);
    if (!unsupported_reason(layer.cache, Feature::run).empty()) return;
    plan_geometry(layer, spec);
  }

  // --max-kv-size on layers that are bounded by nature.
  void bound_window(LayerPlan& layer) {
    if (layer.cache == CacheClass::ring) layer.window = std::min(layer.window, plan_.max_kv_size);
    if (layer.cache == CacheClass::chunked && layer.chunk_size > plan_.max_kv_size)
      refuse(layer, "max-kv-size",
             fmt::format("its blocks of {} tokens cannot be cut to --max-kv-size {}; {} would do",
                         layer.chunk_size, plan_.max_kv_size, layer.chunk_size));
  }

  // What the flags ask of every layer, against the table of capabilities.
  void require_features(const LayerPlan& layer, const LayerSpec& spec) {
    const std::string who = spec.note.empty() ? "" : fmt::format("'{}' layer: ", spec.note);
    const auto require = [&](Feature feature) {
      std::string reason = unsupported_reason(layer.cache, feature);
      if (!reason.empty()) refuse(layer, feature_name(feature), who + reason);
    };
    require(Feature::run);
    if (any_quantized()) require(Feature::quantize);
    if (plan_.parallel > 1) require(Feature::batch);
    if (plan_.rollback > 0) require(Feature::rollback);
    if (flags_.prefix_cache_bytes != 0) require(Feature::reuse);
    if (flags_.save) require(Feature::save);
  }

  void plan_shared(LayerPlan& layer, const LayerSpec& spec) {
    layer.donor = spec.donor;
    const char* share = feature_name(Feature::share);
    if (spec.donor < 0 || static_cast<size_t>(spec.donor) >= config_.layers.size())
      return refuse(layer, share, fmt::format("its donor, layer {}, does not exist", spec.donor));
    if (spec.donor >= layer.index)
      return refuse(layer, share,
                    fmt::format("its donor, layer {}, does not come before it", spec.donor));
    const LayerPlan& donor = plan_.layers[static_cast<size_t>(spec.donor)];
    const std::string reason = unsupported_reason(donor.cache, Feature::share);
    if (!reason.empty())
      return refuse(layer, share,
                    fmt::format("its donor, layer {}, is {}: {}", spec.donor,
                                cache_class_name(donor.cache), reason));
    const KvGeometry& geometry = donor.geometry;
    const auto differs = [](int own, int donors) { return own != 0 && own != donors; };
    if (donor.group >= 0 &&
        (differs(spec.kv_heads, geometry.kv_heads) || differs(spec.k_dim, geometry.k_dim) ||
         differs(spec.v_dim, geometry.v_dim)))
      return refuse(layer, share,
                    fmt::format("it has {} KV heads of K {} and V {}, its donor, layer {}, has {} "
                                "of K {} and V {}",
                                spec.kv_heads, spec.k_dim, spec.v_dim, spec.donor,
                                geometry.kv_heads, geometry.k_dim, geometry.v_dim));
    layer.window = donor.window;
    layer.keep = donor.keep;
    layer.chunk_size = donor.chunk_size;
    layer.geometry = geometry;
    layer.group = donor.group;
    layer.f16_group = donor.f16_group;
    layer.hot_group = donor.hot_group;
  }

  void plan_geometry(LayerPlan& layer, const LayerSpec& spec) {
    layer.geometry = {spec.kv_heads, spec.k_dim, spec.v_dim, {}, {}};
    if (spec.kv_heads < 1 || spec.kv_heads > kMaxHeads || spec.k_dim < 1 ||
        spec.k_dim > kMaxHeadDim || spec.v_dim < 1 || spec.v_dim > kMaxHeadDim)
      return refuse(layer, "head size",
                    fmt::format("{} KV heads of K {} and V {} channels, expected 1 to {} of each",
                                spec.kv_heads, spec.k_dim, spec.v_dim, kMaxHeadDim));
    const CodecPair& codecs = spec.kind == LayerKind::full ? full_ : sliding_;
    const bool alike = spec.k_dim == spec.v_dim && codecs.k == codecs.v;  // told once
    const bool k_fits =
        fit_group(layer, alike ? "K and V" : "K", spec.k_dim, codecs, codecs.k, layer.geometry.k);
    layer.geometry.v = layer.geometry.k;
    const bool v_fits =
        alike || fit_group(layer, "V", spec.v_dim, codecs, codecs.v, layer.geometry.v);
    if (!k_fits || !v_fits) return;
    KvGeometry f16 = layer.geometry;
    f16.k = f16.v = KvCodec{};
    if (const std::string reason = ops_.kv_supported(f16); !reason.empty())
      return refuse(layer, "head size", reason);
    if (const std::string reason = ops_.kv_supported(layer.geometry); !reason.empty())
      return refuse(layer, feature_name(Feature::quantize), reason);
    if (codecs.quantized() && plan_.quantized_start > 0)
      layer.f16_group = groups_.join(layer, f16, Role::before_start);
    layer.group = groups_.join(layer, layer.geometry, Role::rows);
    const KvGeometry hot = hot_geometry(layer.geometry);
    if (hot != layer.geometry) layer.hot_group = groups_.join(layer, hot, Role::hot);
  }

  // What the newest pages are stored in: halves that are rotated and below 8 bits get more, others
  // stay as they are.
  KvGeometry hot_geometry(KvGeometry geometry) const {
    for (KvCodec* half : {&geometry.k, &geometry.v})
      if (half->rotated() && half->bits < std::min(hot_bits_, 8))
        *half = {half->scheme, hot_bits_, hot_bits_ == 16 ? 0 : half->group};
    return geometry;
  }

  // Settles the group of one half: a group that was asked for must divide the head, affine's own
  // default gives way to a smaller one.
  bool fit_group(const LayerPlan& layer, const char* half, int dim, const CodecPair& codecs,
                 const KvCodec& asked, KvCodec& fitted) {
    fitted = asked;
    if (asked.group == 0 || dim % asked.group == 0) return true;
    const int fits = largest_group(dim, asked);
    if (codecs.default_group && fits > 0) {
      fitted.group = fits;
      smaller_groups_.push_back({layer.index, half, dim, fits});
      return true;
    }
    const std::string hint = fits > 0 ? fmt::format("a group of {} would do", fits)
                             : asked.scheme == KvScheme::hadamard
                                 ? std::string("leave the group out for one scale a row")
                                 : std::string("use the hadamard scheme");
    refuse(layer, "head size",
           fmt::format("{} head size {} is not divisible by the group size {}; {}", half, dim,
                       asked.group, hint));
    return false;
  }

  // The largest power of two up to the asked group that divides the head and that the backend
  // takes.
  int largest_group(int dim, KvCodec codec) const {
    int group = 128;
    while (group > codec.group) group /= 2;
    for (; group >= 8; group /= 2) {
      codec.group = group;
      if (dim % group == 0 && ops_.kv_supported({1, dim, dim, codec, codec}).empty()) return group;
    }
    return 0;
  }

  // One projection makes both, but what is kept of K is normed, balanced and turned by RoPE, and no
  // code of it gives V back.
  void note_values_from_keys() {
    std::vector<int> layers;
    for (const LayerPlan& layer : plan_.layers)
      if (config_.layers[static_cast<size_t>(layer.index)].v_from_k) layers.push_back(layer.index);
    if (!layers.empty())
      plan_.notes.push_back(
          fmt::format("layers {}: V is taken from the K projection, and is stored beside K: K is "
                      "normed, balanced and turned by RoPE before it is stored",
                      fmt::join(layers, ", ")));
  }

  void warn_about_groups() {
    for (size_t i = 0; i < smaller_groups_.size(); ++i) {
      const SmallerGroup& first = smaller_groups_[i];
      std::string layers;
      bool told = false;
      for (size_t j = 0; j < smaller_groups_.size(); ++j) {
        const SmallerGroup& other = smaller_groups_[j];
        if (other.half != first.half || other.dim != first.dim) continue;
        if (j < i) told = true;
        layers += fmt::format("{}{}", layers.empty() ? "" : ", ", other.layer);
      }
      if (!told)
        warn("affine groups of {} for {}: 64 does not divide the head size {} (layers {})",
             first.group, first.half, first.dim, layers);
    }
  }

  void warn_about_hot() {
    const auto has_tier = [](const LayerPlan& layer) { return layer.hot_group >= 0; };
    if (flags_.kv_hot && hot_bits_ > 0 && plan_.runnable() &&
        std::none_of(plan_.layers.begin(), plan_.layers.end(), has_tier))
      warn(
          "--kv-hot {} has no effect: no layer stores K or V in the hadamard scheme below 8 bits "
          "(--kv-bits {})",
          *flags_.kv_hot, flags_.kv_bits);
  }

  struct SmallerGroup {
    int layer;
    std::string half;
    int dim;
    int group;
  };

  const ModelConfig& config_;
  const CacheFlags& flags_;
  const kernels::Ops& ops_;
  CodecPair full_, sliding_;
  int hot_bits_ = 0;
  KvPlan plan_;
  PlanGroups groups_;
  std::vector<SmallerGroup> smaller_groups_;
};

}  // namespace

Result<KvPlan> make_plan(const ModelConfig& config, const CacheFlags& flags,
                         const kernels::Ops& ops) {
  RK_TRY(check_flags(flags));
  if (flags.kv_budget > 0) return plan_for_budget(config, flags, ops);
  return Planner(config, flags, ops).make();
}

}  // namespace ringkeep::kv
