// Gemma 3n (Gemma Team 2025), text. As Gemma 3, and: the residual is several streams, of which a
// layer computes one (AltUp); a low-rank branch stands beside attention (LAuReL); each layer is fed
// an embedding of the token; early feed-forwards have sparse gates; values are normed, and the last
// layers read earlier layers' caches.
#include <numbers>

#include "models/families.h"

namespace ringkeep::models {

void Gemma3n::before_layers(Step& step) {
  embed_layers(step);
  open_streams(step);
}

void Gemma3n::layer(int index, const weights::LayerWeights& w, Step& step) {
  predict_streams(w.altup, step);
  const float* active = stream(config_.altup_active, step);

  norm(active, w.attn_norm, nullptr, a_.h, step);
  laurel(w.laurel, a_.h, step);
  attention(index, w, step);
  norm(a_.branch, w.post_attn_norm, active, a_.x, step);
  kernels::run(ops_.add,
               kernels::AddParams{.x = a_.laurel,
                                  .y = a_.x,
                                  .n = step.rows * config_.hidden,
                                  .scale = 1.0f / std::numbers::sqrt2_v<float>},
               step.exec);

  norm(a_.x, w.ffn_norm, nullptr, a_.h, step);
  feed_forward(w, a_.h, step, config_.layers[static_cast<size_t>(index)].gate_deviations);
  add_normed(w.post_ffn_norm, step);

  correct_streams(w.altup, step);
  add_layer_embedding(index, w, step);
}

// The active stream gates the layer's embedding of the token, which all streams but the first get.
void Gemma3n::add_layer_embedding(int index, const weights::LayerWeights& w, Step& step) {
  const int64_t n = step.rows * config_.hidden;
  step.exec.device().copy(reinterpret_cast<std::byte*>(a_.x),
                          reinterpret_cast<const std::byte*>(stream(config_.altup_active, step)),
                          static_cast<size_t>(n) * sizeof(float));
  if (w.altup.scale.size > 0) multiply(w.altup.scale, step);
  layer_embedding(index, w, a_.x, step);
  norm(a_.branch, w.layer_proj_norm, nullptr, a_.branch, step);
  for (int i = 1; i < config_.altup_streams; ++i)
    kernels::run(ops_.add, kernels::AddParams{.x = a_.branch, .y = stream(i, step), .n = n},
                 step.exec);
}

}  // namespace ringkeep::models
