// Gemma 4 (Gemma Team 2026), text. As Gemma 3, and: values are normed; full layers have
// heads of their own, turn a part of their pairs, and may take values from the raw keys; the last
// layers may read earlier layers' caches, with wider feed-forwards; a layer's output is multiplied
// by one number. Models of the E series feed an embedding of the token into each layer; the 26B has
// experts beside each feed-forward.
#include <algorithm>
#include <cmath>
#include <span>

#include "models/families.h"

namespace ringkeep::models {

using kernels::LinearOutput;

namespace {
constexpr int64_t kTableRows = 32;  // that pass through the host at once
}

// layer_in = (sqrt(d) * table[token] + norm(W x / sqrt(hidden))) / sqrt(2), for each layer. The
// norm forgets the factor 1 / sqrt(hidden) but for its eps; sqrt(2) is in its weights.
void Gemma4::before_layers(Step& step) {
  const int64_t width = config_.layer_embedding;
  if (width == 0) return;
  const auto layers = static_cast<int64_t>(config_.layers.size());
  const std::span<const int32_t> tokens = step.batch.tokens;
  const float scale = std::sqrt(static_cast<float>(width) / 2.0f);
  table_rows_.resize(static_cast<size_t>(kTableRows * layers * width));
  for (int64_t row = 0; row < step.rows; row += kTableRows) {
    const int64_t count = std::min(kTableRows, step.rows - row);
    weights_.layer_embedding.read(
        tokens.subspan(static_cast<size_t>(row), static_cast<size_t>(count)), scale,
        table_rows_.data(), step.exec.pool());
    step.exec.device().copy_in(reinterpret_cast<std::byte*>(a_.layer_in + row * layers * width),
                               table_rows_.data(),
                               static_cast<size_t>(count * layers * width) * sizeof(float));
  }
  const LinearOutput out[] = {
      {&weights_.layer_model_proj.tensor, nullptr, a_.layer_gate, layers * width}};
  linear(a_.x, config_.hidden, out, step);
  kernels::run(ops_.rms_norm,
               kernels::RmsNormParams{.x = a_.layer_gate,
                                      .x_stride = width,
                                      .rows = step.rows * layers,
                                      .cols = width,
                                      .weight = weights_.layer_model_norm.data(),
                                      .eps = config_.norm_eps * static_cast<float>(config_.hidden),
                                      .residual = a_.layer_in,
                                      .y = a_.layer_in,
                                      .y_stride = width},
               step.exec);
}

void Gemma4::layer(int index, const weights::LayerWeights& w, Step& step) {
  norm(a_.x, w.attn_norm, nullptr, a_.h, step);
  attention(index, w, step);
  add_normed(w.post_attn_norm, step);

  norm(a_.x, w.ffn_norm, nullptr, a_.h, step);
  feed_forward(w, step);
  if (w.experts) add_experts(w, step);
  add_normed(w.post_ffn_norm, step);

  if (w.layer_gate) add_layer_embedding(index, w, step);
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

// x += norm(W2 (gelu(W1 x) * layer_in)); the gate takes the layer's place in layer_gate.
void Gemma4::add_layer_embedding(int index, const weights::LayerWeights& w, Step& step) {
  const int64_t width = config_.layer_embedding;
  const int64_t stride = static_cast<int64_t>(config_.layers.size()) * width;
  float* gate = a_.layer_gate + index * width;          // [rows, width], row stride `stride`
  const float* embedded = a_.layer_in + index * width;  // the same
  const LinearOutput in[] = {{&w.layer_gate.tensor, nullptr, gate, stride}};
  linear(a_.x, config_.hidden, in, step);
  kernels::run(ops_.glu,
               kernels::GluParams{.gate = gate,
                                  .up = embedded,
                                  .rows = step.rows,
                                  .cols = width,
                                  .stride = stride,
                                  .kind = glu_kind(),
                                  .y = gate},
               step.exec);
  const LinearOutput out[] = {{&w.layer_proj.tensor, nullptr, a_.branch, config_.hidden}};
  linear(gate, stride, out, step);
  add_normed(w.layer_proj_norm, step);
}

}  // namespace ringkeep::models
