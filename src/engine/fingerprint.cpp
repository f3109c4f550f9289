#include "engine/fingerprint.h"

#include <algorithm>

#include "base/sha256.h"

namespace ringkeep::engine {
namespace {

template <typename T>
void add_value(Sha256& sum, const T& value) {
  sum.update(std::as_bytes(std::span(&value, 1)));
}

void add_text(Sha256& sum, std::string_view text) {
  add_value(sum, static_cast<uint64_t>(text.size()));
  sum.update(text);
}

template <typename T>
void add_values(Sha256& sum, const std::vector<T>& values) {
  add_value(sum, static_cast<uint64_t>(values.size()));
  sum.update(std::as_bytes(std::span(values)));
}

// Names, types and shapes of every tensor, and some bytes from the beginning, the middle and the
// end of each: enough to tell models apart without reading them whole.
std::string model_of(const checkpoint::Checkpoint& checkpoint) {
  constexpr size_t kSample = 64;
  const ModelConfig& config = checkpoint.config;
  Sha256 sum;
  for (const float value : {config.norm_eps, config.embedding_scale, config.attention_scale,
                            config.attention_softcap, config.logit_softcap})
    add_value(sum, value);
  if (config.query_scale_beta != 0.0f) add_value(sum, config.query_scale_beta);
  if (config.query_scale_shift != 0) add_value(sum, config.query_scale_context);
  if (config.qk_norm_unweighted) add_text(sum, "q and k normed");  // no tensor tells
  for (const auto& [name, tensor] : checkpoint.table.tensors) {
    add_text(sum, name);
    add_text(sum, tensor.type_name);
    add_values(sum, tensor.shape);
    const std::span bytes(tensor.data, tensor.bytes);
    const size_t n = std::min(kSample, bytes.size());
    for (const size_t at : {size_t{0}, (bytes.size() - n) / 2, bytes.size() - n})
      sum.update(bytes.subspan(at, n));
  }
  return fmt::format("{}, {} layers, {}", config.family, config.layers.size(), sum.hex());
}

const char* scaling_name(RopeSpec::Scaling scaling) {
  switch (scaling) {
    case RopeSpec::Scaling::none: return "";
    case RopeSpec::Scaling::linear: return " linear";
    case RopeSpec::Scaling::llama3: return " llama3";
    case RopeSpec::Scaling::yarn: return " yarn";
    case RopeSpec::Scaling::longrope: return " longrope";
  }
  return "";
}

std::string rope_of(const RopeSpec& rope) {
  if (rope.rotary_dim == 0) return "none";
  std::string text =
      fmt::format("theta {} dim {}{}", rope.theta, rope.rotary_dim, scaling_name(rope.scaling));
  if (rope.scaling != RopeSpec::Scaling::none)
    text +=
        fmt::format(" {} of {} ({}, {}, {}, {})", rope.factor, rope.original_context,
                    rope.low_freq_factor, rope.high_freq_factor, rope.beta_fast, rope.beta_slow);
  if (rope.attention_factor != 1.0) text += fmt::format(" times {}", rope.attention_factor);
  if (!rope.factors.empty()) {
    Sha256 sum;
    add_values(sum, rope.factors);
    text += fmt::format(" factors {}", sum.hex());
  }
  return text;
}

// "0-4: ...; 5: ...": a part for each run of layers that are alike.
std::string ropes_of(const ModelConfig& config) {
  std::string text;
  for (size_t begin = 0; begin < config.layers.size();) {
    size_t end = begin + 1;
    while (end < config.layers.size() && config.layers[end].rope == config.layers[begin].rope)
      ++end;
    const std::string range =
        end == begin + 1 ? fmt::format("{}", begin) : fmt::format("{}-{}", begin, end - 1);
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", range,
                        rope_of(config.layers[begin].rope));
    begin = end;
  }
  return text;
}

std::string balance_of(const weights::KeyBalance& balance) {
  Sha256 sum;
  bool any = false;
  for (const std::vector<float>& layer : balance) {
    add_value(sum, static_cast<uint64_t>(layer.size()));
    add_values(sum, layer);
    any = any || !layer.empty();
  }
  return any ? sum.hex() : "none";
}

}  // namespace

std::string tokenizer_sum(const TokenizerData& data) {
  if (data.kind == TokenizerData::Kind::none) return "none";
  std::string texts;  // each with its length before it
  const auto add = [&](const std::string& text) {
    const auto size = static_cast<uint32_t>(text.size());
    texts.append(reinterpret_cast<const char*>(&size), sizeof(size));
    texts += text;
  };
  for (const std::string& piece : data.pieces) add(piece);
  for (const auto& [left, right] : data.merges) add(left), add(right);
  for (const std::string& pattern : data.pre_patterns) add(pattern);
  add(data.pre);
  Sha256 sum;
  add_text(sum, texts);
  add_values(sum, data.scores);
  add_values(sum, data.types);
  for (const bool flag : {data.ignore_merges, data.nfc, data.add_space_prefix, data.byte_fallback,
                          data.split_digits, data.add_bos, data.add_eos})
    add_value(sum, static_cast<uint8_t>(flag));
  for (const int32_t id : {data.bos, data.eos, data.unk, data.pad}) add_value(sum, id);
  return sum.hex();
}

Fingerprint make_fingerprint(const FingerprintInputs& in) {
  const kv::KvPlan& plan = in.plan;
  const int64_t keep =
      plan.groups.empty()
          ? 0
          : std::ranges::max(plan.groups, {}, [](const kv::GroupPlan& g) { return g.keep; }).keep;
  return {
      {"model", model_of(in.checkpoint)},
      {"tokenizer", in.tokenizer},
      {"weights", in.weight_bits > 0
                      ? fmt::format("{} bits in groups of {}", in.weight_bits, in.weight_group)
                      : "as stored"},
      {"activations", in.exact ? "exact" : "int8"},
      {"rope", ropes_of(in.checkpoint.config)},
      {"balance", balance_of(in.balance)},
      {"max_kv_size", fmt::format("{}", plan.max_kv_size)},
      {"keep", fmt::format("{}", keep)},
      {"quantized_kv_start", fmt::format("{}", plan.quantized_start)},
      {"adapter", in.adapter},
      {"images", "none"},
  };
}

}  // namespace ringkeep::engine
