// Per-layer embeddings (Gemma 3n and 4): each layer is fed an embedding of the token of its own,
// from a table that stays in its file.
#include <algorithm>
#include <cmath>
#include <span>

#include "models/blocks/decoder.h"

namespace ringkeep::models {

using kernels::LinearOutput;

namespace {
constexpr int64_t kTableRows = 32;  // that pass through the host at once
}

// layer_in = (sqrt(d) * table[token] + norm(W x / sqrt(hidden))) / sqrt(2), for each layer. The
// norm forgets the factor 1 / sqrt(hidden) but for its eps; sqrt(2) is in its weights. Tokens
// beyond the table have its row 0.
void Decoder::embed_layers(Step& step) {
  const int64_t width = config_.layer_embedding;
  const auto layers = static_cast<int64_t>(config_.layers.size());
  const int64_t vocab = layer_vocab_of(config_);
  const float scale = std::sqrt(static_cast<float>(width) / 2.0f);
  table_rows_.resize(static_cast<size_t>(kTableRows * layers * width));
  std::vector<int32_t> tokens(step.batch.tokens);
  for (int32_t& token : tokens)
    if (token >= vocab) token = 0;
  for (int64_t row = 0; row < step.rows; row += kTableRows) {
    const int64_t count = std::min(kTableRows, step.rows - row);
    weights_.layer_embedding.read(
        std::span(tokens).subspan(static_cast<size_t>(row), static_cast<size_t>(count)), scale,
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

// The gate takes the layer's place in layer_gate.
void Decoder::layer_embedding(int index, const weights::LayerWeights& w, const float* in,
                              Step& step) {
  const int64_t width = config_.layer_embedding;
  const int64_t stride = static_cast<int64_t>(config_.layers.size()) * width;
  float* gate = a_.layer_gate + index * width;          // [rows, width], row stride `stride`
  const float* embedded = a_.layer_in + index * width;  // the same
  const LinearOutput first[] = {{&w.layer_gate.tensor, nullptr, gate, stride}};
  linear(in, config_.hidden, first, step);
  kernels::run(ops_.glu,
               kernels::GluParams{.gate = gate,
                                  .up = embedded,
                                  .rows = step.rows,
                                  .cols = width,
                                  .stride = stride,
                                  .kind = glu_kind(),
                                  .y = gate},
               step.exec);
  const LinearOutput last[] = {{&w.layer_proj.tensor, nullptr, a_.branch, config_.hidden}};
  linear(gate, stride, last, step);
}

}  // namespace ringkeep::models
