#include "weights/names.h"

#include <algorithm>
#include <iterator>

namespace ringkeep::weights {
namespace {

const char* gguf_name(Part part) {
  switch (part) {
    case Part::embedding: return "token_embd";
    case Part::lm_head: return "output";
    case Part::final_norm: return "output_norm";
    case Part::attn_norm: return "attn_norm";
    case Part::q: return "attn_q";
    case Part::k: return "attn_k";
    case Part::v: return "attn_v";
    case Part::o: return "attn_output";
    case Part::q_norm: return "attn_q_norm";
    case Part::k_norm: return "attn_k_norm";
    case Part::post_attn_norm: return "post_attention_norm";
    case Part::ffn_norm: return "ffn_norm";
    case Part::gate: return "ffn_gate";
    case Part::up: return "ffn_up";
    case Part::down: return "ffn_down";
    case Part::post_ffn_norm: return "post_ffw_norm";
    case Part::qkv: return "attn_qkv";
    case Part::gate_up: return "ffn_up";
    case Part::layer_embedding: return "per_layer_token_embd";
    case Part::layer_model_proj: return "per_layer_model_proj";
    case Part::layer_model_norm: return "per_layer_proj_norm";
    case Part::layer_gate: return "inp_gate";
    case Part::layer_proj: return "proj";
    case Part::layer_proj_norm: return "post_norm";
    case Part::out_scale: return "layer_output_scale";
    case Part::sinks: return "attn_sinks.weight";
    case Part::router: return "ffn_gate_inp";
    case Part::router_norm: return "ffn_gate_inp.scale";
    case Part::expert_gate: return "ffn_gate_exps";
    case Part::expert_up: return "ffn_up_exps";
    case Part::expert_down: return "ffn_down_exps";
    case Part::expert_gate_up: return "ffn_gate_up_exps";
    case Part::expert_scale: return "ffn_down_exps.scale";
    case Part::shared_router: return "ffn_gate_inp_shexp";
    case Part::shared_gate: return "ffn_gate_shexp";
    case Part::shared_up: return "ffn_up_shexp";
    case Part::shared_down: return "ffn_down_shexp";
    case Part::post_ffn_norm_1: return "post_ffw_norm_1";
    case Part::pre_ffn_norm_2: return "pre_ffw_norm_2";
    case Part::post_ffn_norm_2: return "post_ffw_norm_2";
    case Part::altup_proj: return "altup_proj";
    case Part::altup_unembed: return "altup_unembd_proj";
    case Part::altup_router: return "altup_router";
    case Part::altup_router_norm: return "altup_router_norm";
    case Part::altup_predict: return "altup_predict_coef";
    case Part::altup_correct: return "altup_correct_coef";
    case Part::altup_scale: return "altup_correct_scale.weight";
    case Part::laurel_left: return "laurel_l";
    case Part::laurel_right: return "laurel_r";
    case Part::laurel_norm: return "laurel_post_norm";
  }
  return "";
}

// In Gemma and OLMo post_attention_layernorm is a norm of the branch; elsewhere it is the norm
// before the FFN.
const char* hf_name(Part part, const std::string& family) {
  const bool gemma = family.starts_with("gemma");
  const bool gpt_oss = family == "gpt_oss" || family == "llama4";  // their names of experts
  switch (part) {
    case Part::embedding: return "embed_tokens";
    case Part::lm_head: return "lm_head";
    case Part::final_norm: return "norm";
    case Part::attn_norm: return "input_layernorm";
    case Part::q: return "self_attn.q_proj";
    case Part::k: return "self_attn.k_proj";
    case Part::v: return "self_attn.v_proj";
    case Part::o: return "self_attn.o_proj";
    case Part::q_norm: return "self_attn.q_norm";
    case Part::k_norm: return "self_attn.k_norm";
    case Part::post_attn_norm: return "post_attention_layernorm";
    case Part::ffn_norm: return gemma ? "pre_feedforward_layernorm" : "post_attention_layernorm";
    case Part::gate: return "mlp.gate_proj";
    case Part::up: return "mlp.up_proj";
    case Part::down: return "mlp.down_proj";
    case Part::post_ffn_norm: return "post_feedforward_layernorm";
    case Part::qkv: return "self_attn.qkv_proj";
    case Part::gate_up: return "mlp.gate_up_proj";
    case Part::layer_embedding: return "embed_tokens_per_layer";
    case Part::layer_model_proj: return "per_layer_model_projection";
    case Part::layer_model_norm: return "per_layer_projection_norm";
    case Part::layer_gate: return "per_layer_input_gate";
    case Part::layer_proj: return "per_layer_projection";
    case Part::layer_proj_norm: return "post_per_layer_input_norm";
    case Part::out_scale: return "layer_scalar";
    case Part::sinks: return "self_attn.sinks";
    case Part::router: return gemma ? "router.proj" : gpt_oss ? "mlp.router" : "mlp.gate";
    case Part::router_norm: return "router.scale";
    case Part::expert_gate:
      return gemma     ? "experts.switch_glu.gate_proj"
             : gpt_oss ? "mlp.experts.gate_proj"
                       : "mlp.switch_mlp.gate_proj";
    case Part::expert_up:
      return gemma     ? "experts.switch_glu.up_proj"
             : gpt_oss ? "mlp.experts.up_proj"
                       : "mlp.switch_mlp.up_proj";
    case Part::expert_down:
      return gemma     ? "experts.switch_glu.down_proj"
             : gpt_oss ? "mlp.experts.down_proj"
                       : "mlp.switch_mlp.down_proj";
    case Part::expert_gate_up: return gemma ? "experts.gate_up_proj" : "mlp.experts.gate_up_proj";
    case Part::expert_scale: return "router.per_expert_scale";
    case Part::shared_router: return "mlp.shared_expert_gate";
    case Part::shared_gate: return "mlp.shared_expert.gate_proj";
    case Part::shared_up: return "mlp.shared_expert.up_proj";
    case Part::shared_down: return "mlp.shared_expert.down_proj";
    case Part::post_ffn_norm_1: return "post_feedforward_layernorm_1";
    case Part::pre_ffn_norm_2: return "pre_feedforward_layernorm_2";
    case Part::post_ffn_norm_2: return "post_feedforward_layernorm_2";
    case Part::altup_proj: return "altup_projections";
    case Part::altup_unembed: return "altup_unembed_projections";
    case Part::altup_router: return "altup.modality_router";
    case Part::altup_router_norm: return "altup.router_norm";
    case Part::altup_predict: return "altup.prediction_coefs";
    case Part::altup_correct: return "altup.correction_coefs";
    case Part::altup_scale: return "altup.correct_output_scale";
    case Part::laurel_left: return "laurel.linear_left";
    case Part::laurel_right: return "laurel.linear_right";
    case Part::laurel_norm: return "laurel.post_laurel_norm";
  }
  return "";
}

bool model_wide(Part part) { return part <= Part::layer_model_norm; }
bool of_a_stream(Part part) { return part == Part::altup_proj || part == Part::altup_unembed; }

}  // namespace

BranchNorms branch_norms(const ModelConfig& config) {
  if (config.family.starts_with("gemma")) return {true, true, true, true};
  if (config.family.starts_with("olmo")) return {false, true, false, true};
  if (config.family == "cohere2") return {.ffn = false};  // one norm for both branches
  return {};
}

bool interleaved_rows(const ModelConfig& config, checkpoint::Format format) {
  if (config.family == "cohere2" || config.family == "llama4") return true;  // as it was trained
  // llama.cpp's converter reorders these.
  constexpr const char* kReordered[] = {"llama", "mistral", "mistral3", "smollm3"};
  return format == checkpoint::Format::gguf &&
         std::find(std::begin(kReordered), std::end(kReordered), config.family) !=
             std::end(kReordered);
}

std::string part_name(Part part, int layer, const ModelConfig& config, checkpoint::Format format,
                      const std::string& prefix) {
  // In GPT-OSS alone the norm before the feed-forward has this name.
  if (format == checkpoint::Format::gguf && config.family == "gpt_oss" && part == Part::ffn_norm)
    part = Part::post_attn_norm;
  if (of_a_stream(part)) {
    const bool gguf = format == checkpoint::Format::gguf;
    return fmt::format("{}{}.{}", prefix, gguf ? gguf_name(part) : hf_name(part, config.family),
                       layer);
  }
  if (format == checkpoint::Format::gguf)
    return model_wide(part) ? gguf_name(part) : fmt::format("blk.{}.{}", layer, gguf_name(part));
  std::string name = hf_name(part, config.family);
  if (config.family == "llama4" && name.starts_with("mlp.")) name.replace(0, 3, "feed_forward");
  if (part == Part::lm_head) {
    // The head sits beside the inner model: "model." has it at the top, "x.model." under "x.".
    const size_t inner = prefix.rfind("model.");
    const bool nested = prefix.starts_with("language_model.");
    return (nested ? prefix.substr(0, inner) : std::string()) + name;
  }
  return model_wide(part) ? prefix + name : fmt::format("{}layers.{}.{}", prefix, layer, name);
}

std::string find_prefix(const checkpoint::TensorTable& table, checkpoint::Format format) {
  if (format == checkpoint::Format::gguf) return "";
  for (const char* prefix : {"model.", "language_model.model.", "model.language_model."})
    if (table.find(std::string(prefix) + "embed_tokens.weight") != nullptr) return prefix;
  return "";
}

}  // namespace ringkeep::weights
