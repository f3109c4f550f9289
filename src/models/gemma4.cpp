// Gemma 4 (Gemma Team 2026), text. As Gemma 3, and: values are normed; full layers have
// heads of their own, turn a part of their pairs, and may take values from the raw keys; the last
// layers may read earlier layers' caches, with wider feed-forwards; a layer's output is multiplied
// by one number. Models of the E series feed an embedding of the token into each layer; the 26B has
// experts beside each feed-forward.
#include "models/families.h"

namespace ringkeep::models {

void Gemma4::before_layers(Step& step) {
  if (config_.layer_embedding > 0) embed_layers(step);
}

void Gemma4::layer(int index, const weights::LayerWeights& w, Step& step) {
  norm(a_.x, w.attn_norm, nullptr, a_.h, step);
  attention(index, w, step);
  add_normed(w.post_attn_norm, step);

  norm(a_.x, w.ffn_norm, nullptr, a_.h, step);
  feed_forward(w, step);
  if (w.experts) add_experts(w, step);
  add_normed(w.post_ffn_norm, step);

  if (w.layer_gate) {
    layer_embedding(index, w, a_.x, step);
    add_normed(w.layer_proj_norm, step);
  }
  if (w.out_scale.size > 0) multiply(w.out_scale, step);
}

// branch = norm(branch) + norm(experts(norm(x))), where the router reads x under a norm of its own.
void Gemma4::add_experts(const weights::LayerWeights& w, Step& step) {
  norm(a_.branch, w.post_ffn_norm_1, nullptr, a_.shared, step);
  norm(a_.x, w.experts.router_norm, nullptr, a_.routed, step);
  norm(a_.x, w.pre_ffn_norm_2, nullptr, a_.h, step);
  experts(w.experts, a_.routed, a_.h, step);
  norm(a_.branch, w.post_ffn_norm_2, a_.shared, a_.branch, step);
}

}  // namespace ringkeep::models
