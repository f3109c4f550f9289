// ModelConfig from the config.json of Hugging Face and MLX checkpoints. Key names, defaults and
// rules: the configuration classes of transformers 5.
#include <cmath>
#include <limits>

#include "checkpoint/checkpoint.h"
#include "checkpoint/families.h"
#include "checkpoint/hf_families.h"
#include "checkpoint/hf_gemma3n.h"
#include "checkpoint/hf_gemma4.h"
#include "checkpoint/hf_layers.h"
#include "checkpoint/hf_rope.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/limits.h"

namespace ringkeep::checkpoint {

namespace {

// What a family's configuration class assumes for absent keys; 0: the key is required.
struct FamilyDefaults {
  const char* model_type;
  int64_t heads, kv_heads, head_dim, vocab, ffn, context;
  bool tied;
  double eps = 1e-6;
};
constexpr FamilyDefaults kDefaults[] = {
    {"gemma3_text", 8, 4, 256, 262208, 9216, 131072, true},
    {"gemma3", 8, 4, 256, 262208, 9216, 131072, true},
    {"gemma3n_text", 8, 2, 256, 262400, 16384, 32768, true},
    {"gemma3n", 8, 2, 256, 262400, 16384, 32768, true},
    {"gemma4_text", 8, 4, 256, 262144, 9216, 131072, true},
    {"gemma4", 8, 4, 256, 262144, 9216, 131072, true},
    {"gemma4_unified_text", 8, 4, 256, 262144, 9216, 262144, true},
    {"gemma4_unified", 8, 4, 256, 262144, 9216, 262144, true},
    {"qwen3", 32, 0, 128, 151936, 22016, 32768, false},
    {"llama", 32, 0, 0, 32000, 11008, 2048, false},
    {"mistral", 32, 8, 0, 32000, 14336, 131072, false},
    {"qwen2", 32, 32, 0, 151936, 22016, 32768, false},
    {"gemma2", 8, 4, 256, 256000, 9216, 8192, true},
    {"phi3", 32, 0, 0, 32064, 8192, 4096, false, 1e-5},
    {"smollm3", 16, 4, 0, 128256, 11008, 32768, true},
    {"olmo2", 32, 0, 0, 50304, 11008, 2048, false, 1e-5},
    {"olmo3", 32, 0, 0, 50304, 11008, 2048, false, 1e-5},
    {"cohere2", 64, 0, 0, 256000, 22528, 8192, true, 1e-5},
    {"ministral", 32, 8, 0, 32000, 14336, 131072, false},
    {"ministral3", 32, 8, 128, 131072, 14336, 262144, false, 1e-5},
    {"qwen3_moe", 32, 4, 0, 151936, 6144, 32768, false},
    {"qwen2_moe", 16, 16, 0, 151936, 5632, 32768, false},
    {"gpt_oss", 64, 8, 64, 201088, 2880, 131072, false, 1e-5},
    {"llama4_text", 40, 8, 128, 202048, 8192, 131072, false, 1e-5},
    {"llama4", 40, 8, 128, 202048, 8192, 131072, false, 1e-5},
};

FamilyDefaults defaults_of(const std::string& model_type) {
  for (const FamilyDefaults& entry : kDefaults)
    if (model_type == entry.model_type) return entry;
  return {"", 0, 0, 0, 0, 0, 0, false};
}

// The text part of a multimodal configuration, or the whole.
Result<JsonFields> text_part(const JsonFields& outer) {
  for (const char* key : {"text_config", "language_config", "llm_config"})
    if (const auto inner = RK_TRY(outer.object(key)); inner && !inner->json().empty())
      return *inner;
  return outer;
}

// Weights that other tools packed in their own ways.
Status refuse_foreign_quantization(const JsonFields& outer, const JsonFields& text) {
  for (const JsonFields* fields : {&outer, &text}) {
    const auto quantization = RK_TRY(fields->object("quantization_config"));
    if (!quantization) continue;
    const auto method = RK_TRY(quantization->text("quant_method"));
    if (method && *method != "mlx" && *method != "mxfp4")
      return input_error(
          "{}: quantization method \"{}\" is not supported; MLX affine, MXFP4, dense and GGUF "
          "weights are",
          quantization->where(), *method);
    if (!method && !quantization->has("bits"))
      return input_error("{}: expected quant_method, or bits and group_size as MLX writes them",
                         quantization->where());
  }
  return {};
}

Result<Activation> read_activation(const JsonFields& text, const std::string& family) {
  const bool gemma = family.starts_with("gemma");
  auto name = RK_TRY(text.text("hidden_activation"));
  if (!name && !gemma) name = RK_TRY(text.text("hidden_act"));
  if (!name) return gemma ? Activation::gelu_tanh : Activation::silu;
  if (*name == "silu" || *name == "swish") return Activation::silu;
  if (*name == "gelu_pytorch_tanh" || *name == "gelu_tanh" || *name == "gelu_new")
    return Activation::gelu_tanh;
  if (!is_known_family(family)) return Activation::silu;
  return input_error("{}: activation \"{}\", expected silu or gelu_pytorch_tanh", text.where(),
                     *name);
}

// Options of the known families that change the forward pass and are not supported.
Status refuse_unsupported(const JsonFields& text, const std::string& family) {
  if (!is_known_family(family) || family == "gemma4") return {};  // Gemma 4: read_hf_gemma4
  for (const char* key : {"mlp_bias", "lm_head_bias", "use_mrope", "use_bidirectional_attention"})
    if (RK_TRY(text.boolean(key)).value_or(false))
      return input_error("{}: {} = true is not supported for {}", text.where(), key, family);
  return {};
}

Result<int64_t> required(const JsonFields& text, const char* key, int64_t most, int64_t fallback) {
  const auto value = RK_TRY(text.integer(key, 1, most));
  if (value) return *value;
  if (fallback > 0) return fallback;
  return input_error("{}: expected {}, found none", text.where(), key);
}

Result<double> attention_scale(const JsonFields& text, const std::string& family,
                               int64_t head_dim) {
  double query_dim = static_cast<double>(head_dim);
  if (family.starts_with("gemma"))
    query_dim = RK_TRY(text.number("query_pre_attn_scalar", 1e-6, 1e9))
                    .value_or(family == "gemma2" || family == "gemma3" ? 256.0 : query_dim);
  return 1.0 / std::sqrt(query_dim);
}

Result<ModelConfig> read_config(const Json& json) {
  const JsonFields outer(json, "config.json");
  if (!json.is_object()) return input_error("config.json: expected an object");
  const JsonFields text = RK_TRY(text_part(outer));
  auto model_type = RK_TRY(text.text("model_type"));
  if (!model_type) model_type = RK_TRY(outer.text("model_type"));
  if (!model_type || model_type->empty())
    return input_error("config.json: expected model_type, found none");
  RK_TRY(refuse_foreign_quantization(outer, text));
  const FamilyDefaults defaults = defaults_of(*model_type);

  ModelConfig config;
  config.family = *model_type == "gemma3_text" ? "gemma3" : *model_type;
  if (is_gemma4(*model_type)) config.family = "gemma4";
  if (is_gemma3n(*model_type)) config.family = "gemma3n";
  if (*model_type == "llama4_text") config.family = "llama4";
  RK_TRY(refuse_unsupported(text, config.family));
  config.name = RK_TRY(outer.text("_name_or_path")).value_or("");
  config.hidden = RK_TRY(required(text, "hidden_size", kLargestWidth, 0));
  const int64_t layers = RK_TRY(required(text, "num_hidden_layers", kMostLayers, 0));
  const int64_t heads = RK_TRY(required(text, "num_attention_heads", kMostHeads, defaults.heads));
  config.vocab_size = RK_TRY(required(text, "vocab_size", kLargestVocab, defaults.vocab));
  const Json* widths = text.find("intermediate_size");  // Gemma 3n: one, or one for each layer
  if (config.family != "gemma3n" || widths == nullptr || !widths->is_array())
    config.ffn_hidden =
        RK_TRY(text.integer("intermediate_size", 0, kLargestWidth)).value_or(defaults.ffn);
  const int64_t kv_heads = RK_TRY(text.integer("num_key_value_heads", 1, kMostHeads))
                               .value_or(defaults.kv_heads > 0 ? defaults.kv_heads : heads);
  if (heads % kv_heads != 0)
    return input_error(
        "{}: num_attention_heads is {}, expected a multiple of num_key_value_heads {}",
        text.where(), heads, kv_heads);
  int64_t head_dim = defaults.head_dim > 0 ? defaults.head_dim : config.hidden / heads;
  head_dim = RK_TRY(text.integer("head_dim", 1, kLargestHeadDim)).value_or(head_dim);
  if (head_dim < 1 || head_dim > kLargestHeadDim)
    return input_error("{}: {} heads for a hidden size of {}", text.where(), heads, config.hidden);
  config.trained_context = RK_TRY(text.integer("max_position_embeddings", 1, kLongestContext))
                               .value_or(defaults.context);
  config.norm_eps =
      static_cast<float>(RK_TRY(text.number("rms_norm_eps", 0.0, 1.0)).value_or(defaults.eps));
  config.activation = RK_TRY(read_activation(text, config.family));
  const bool gemma =
      config.family == "gemma" || config.family == "gemma2" || config.family == "gemma3";
  config.embedding_scale = gemma ? std::sqrt(static_cast<float>(config.hidden)) : 1.0f;
  config.norm_weight_plus_one = gemma;
  config.attention_scale =
      static_cast<float>(RK_TRY(attention_scale(text, config.family, head_dim)));
  config.attention_softcap =
      static_cast<float>(RK_TRY(text.number("attn_logit_softcapping", 0.0, 1e6)).value_or(0.0));
  config.logit_softcap =
      static_cast<float>(RK_TRY(text.number("final_logit_softcapping", 0.0, 1e6)).value_or(0.0));
  auto tied = RK_TRY(text.boolean("tie_word_embeddings"));
  if (!tied) tied = RK_TRY(outer.boolean("tie_word_embeddings"));
  config.tied_embeddings = tied.value_or(defaults.tied);
  config.qk_norm =
      config.family == "gemma3" || config.family == "qwen3" || config.family == "qwen3_moe";
  config.attention_bias =
      RK_TRY(text.boolean("attention_bias")).value_or(config.family == "gpt_oss");

  const HfRope rope = RK_TRY(read_hf_rope(text, config.family, head_dim, config.trained_context));
  config.layers.resize(static_cast<size_t>(layers));
  RK_TRY(read_layer_kinds(text, *model_type, config.layers));
  for (LayerSpec& layer : config.layers) {
    layer.heads = static_cast<int>(heads);
    layer.kv_heads = static_cast<int>(kv_heads);
    layer.k_dim = layer.v_dim = static_cast<int>(head_dim);
    const LayerSpec& owner =
        layer.donor >= 0 ? config.layers[static_cast<size_t>(layer.donor)] : layer;
    layer.rope = owner.kind == LayerKind::sliding ? rope.sliding : rope.full;
  }
  RK_TRY(read_family(text, config));
  if (config.family == "gemma4") RK_TRY(read_hf_gemma4(text, *model_type, config));
  if (config.family == "gemma3n") RK_TRY(read_hf_gemma3n(text, config));
  return config;
}

}  // namespace

Result<ModelConfig> parse_hf_config(const std::string& json_text) {
  const Json json = RK_TRY(parse_json(json_text, "config.json"));
  return read_config(json);
}

}  // namespace ringkeep::checkpoint
