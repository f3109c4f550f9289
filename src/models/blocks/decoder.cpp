#include "models/blocks/decoder.h"

#include <cmath>

#include "models/blocks/cached_attention.h"

namespace ringkeep::models {

using kernels::LinearOutput;

void Decoder::linear(const float* x, int64_t x_stride, std::span<const LinearOutput> outputs,
                     Step& step) {
  if (inputs_ != nullptr) inputs_->add(x, x_stride, step.rows, outputs, step.exec.device());
  const kernels::LinearParams params{.x = x,
                                     .x_stride = x_stride,
                                     .rows = step.rows,
                                     .outputs = outputs.data(),
                                     .n_outputs = static_cast<int>(outputs.size()),
                                     .exact = exact_,
                                     .fine_rows = step.batch.fine_rows};
  kernels::run(ops_.linear, params, step.exec);
  adapters_.add(params, step.batch.adapters, ops_, step.exec);
}

void Decoder::norm(const float* x, const weights::OwnedVector& weight, const float* residual,
                   float* y, Step& step) {
  kernels::run(ops_.rms_norm,
               kernels::RmsNormParams{.x = x,
                                      .x_stride = config_.hidden,
                                      .rows = step.rows,
                                      .cols = config_.hidden,
                                      .weight = weight.data(),
                                      .eps = config_.norm_eps,
                                      .centred = config_.norm == NormKind::layer,
                                      .residual = residual,
                                      .y = y,
                                      .y_stride = config_.hidden},
               step.exec);
}

void Decoder::norm_whole(float* x, const weights::OwnedVector& weight, Step& step) {
  if (weight.size == 0) return;
  kernels::run(ops_.rms_norm,
               kernels::RmsNormParams{.x = x,
                                      .x_stride = weight.size,
                                      .rows = step.rows,
                                      .cols = weight.size,
                                      .weight = weight.data(),
                                      .eps = config_.norm_eps,
                                      .y = x,
                                      .y_stride = weight.size},
               step.exec);
}

void Decoder::fill_query_scale(const Batch& batch, kernels::Device& device) {
  std::vector<float> scale;  // [rows]
  for (const int32_t position : batch.positions) {
    const double turns = std::floor((position + config_.query_scale_shift) /
                                    static_cast<double>(config_.query_scale_context));
    scale.push_back(static_cast<float>(1.0 + config_.query_scale_beta * std::log1p(turns)));
  }
  device.copy_in(reinterpret_cast<std::byte*>(a_.query_scale), scale.data(),
                 sizeof(float) * scale.size());
}

void Decoder::add_branch(Step& step) {
  kernels::run(ops_.add,
               kernels::AddParams{.x = a_.branch, .y = a_.x, .n = step.rows * config_.hidden},
               step.exec);
}

void Decoder::multiply(const weights::OwnedVector& factors, Step& step) {
  apply({.weight = factors.data(), .normalize = false}, a_.x, 1, static_cast<int>(config_.hidden),
        step);
}

kernels::HeadTransform Decoder::transform(const HeadScale& scale, int index) const {
  const auto* rope = ropes_.of(index);
  return {.weight = scale.weights,
          .weight_stride = scale.head_stride,
          .normalize = scale.normalize,
          .eps = config_.norm_eps,
          .cos = rope != nullptr ? rope->cos.as<float>() : nullptr,
          .sin = rope != nullptr ? rope->sin.as<float>() : nullptr,
          .pairs = rope != nullptr ? rope->pairs : 0};
}

void Decoder::apply(const kernels::HeadTransform& transform, float* x, int heads, int dim,
                    Step& step) {
  kernels::run(ops_.norm_rope,
               kernels::NormRopeParams{.x = x,
                                       .x_stride = static_cast<int64_t>(heads) * dim,
                                       .rows = step.rows,
                                       .heads = heads,
                                       .dim = dim,
                                       .transform = transform},
               step.exec);
}

void Decoder::attention(int index, const weights::LayerWeights& w, const float* in, Step& step) {
  const LayerSpec& spec = config_.layers[static_cast<size_t>(index)];
  const int64_t q_width = static_cast<int64_t>(spec.heads) * spec.k_dim;
  const int64_t k_width = static_cast<int64_t>(spec.kv_heads) * spec.k_dim;
  const int64_t v_width = static_cast<int64_t>(spec.kv_heads) * spec.v_dim;
  const int64_t attn_width = static_cast<int64_t>(spec.heads) * spec.v_dim;

  const LinearOutput outputs[] = {{&w.q.tensor, w.q_bias.data(), a_.q, q_width},
                                  {&w.k.tensor, w.k_bias.data(), a_.k, k_width},
                                  {&w.v.tensor, w.v_bias.data(), a_.v, v_width}};
  linear(in, config_.hidden, std::span(outputs).first(w.v ? 3 : w.k ? 2 : 1), step);
  norm_whole(a_.q, w.q_norm_whole, step);
  norm_whole(a_.k, w.k_norm_whole, step);
  const float* v = spec.v_from_k ? a_.k : a_.v;  // k still without its norm
  if (w.k && config_.v_norm) {
    kernels::run(ops_.rms_norm,
                 kernels::RmsNormParams{.x = v,
                                        .x_stride = spec.v_dim,
                                        .rows = step.rows * spec.kv_heads,
                                        .cols = spec.v_dim,
                                        .eps = config_.norm_eps,
                                        .y = a_.v,
                                        .y_stride = spec.v_dim},
                 step.exec);
    v = a_.v;
  }
  const QkNorms& norms = qk_norms_[static_cast<size_t>(index)];
  const kernels::HeadTransform k_transform = transform(norms.k(w), index);
  kernels::HeadTransform q_transform = transform(norms.q(w), index);
  if (!config_.query_scale_no_rope || spec.rope.rotary_dim == 0)
    q_transform.row_scale = a_.query_scale;
  apply(q_transform, a_.q, spec.heads, spec.k_dim, step);
  cached_attention({.layer = index,
                    .heads = spec.heads,
                    .q = a_.q,
                    .k = a_.k,
                    .v = v,
                    .k_transform = k_transform,
                    .out = a_.attn,
                    .scale = config_.attention_scale,
                    .softcap = config_.attention_softcap,
                    .sinks = w.sinks.data(),
                    .non_finite = a_.non_finite},
                   *step.batch.kv, step.store, ops_, step.exec);
  if (statistics_ != nullptr) {
    if (w.k) apply(k_transform, a_.k, spec.kv_heads, spec.k_dim, step);
    statistics_->add(spec, static_cast<size_t>(index), step.rows, a_.q, w.k ? a_.k : nullptr,
                     step.exec.device());
  }
  const LinearOutput out[] = {{&w.o.tensor, w.o_bias.data(), a_.branch, config_.hidden}};
  linear(a_.attn, attn_width, out, step);
}

void Decoder::feed_forward(const weights::LayerWeights& w, const float* in, Step& step,
                           std::optional<float> deviations) {
  gated_product(w.gate, w.up, w.down, in, a_.branch, step, deviations);
}

void Decoder::gated_product(const weights::OwnedTensor& gate, const weights::OwnedTensor& up,
                            const weights::OwnedTensor& down, const float* in, float* out,
                            Step& step, std::optional<float> deviations) {
  const int64_t ffn = gate.tensor.rows;
  const LinearOutput outputs[] = {{&gate.tensor, nullptr, a_.gate, ffn},
                                  {&up.tensor, nullptr, a_.up, ffn}};
  linear(in, config_.hidden, outputs, step);
  if (deviations)
    kernels::run(ops_.gaussian_topk,
                 kernels::GaussianTopKParams{
                     .x = a_.gate, .rows = step.rows, .cols = ffn, .deviations = *deviations},
                 step.exec);
  gated(a_.gate, a_.up, step.rows, ffn, step);
  const LinearOutput last[] = {{&down.tensor, nullptr, out, config_.hidden}};
  linear(a_.gate, ffn, last, step);
}

void Decoder::gated(float* gate, const float* up, int64_t rows, int64_t cols, Step& step) {
  kernels::run(ops_.glu,
               kernels::GluParams{.gate = gate,
                                  .up = up,
                                  .rows = rows,
                                  .cols = cols,
                                  .stride = cols,
                                  .kind = glu_kind(),
                                  .y = gate,
                                  .alpha = config_.swiglu_alpha,
                                  .limit = config_.swiglu_limit},
               step.exec);
}

Status Decoder::set_key_balance(std::shared_ptr<const weights::KeyBalance> balance,
                                kernels::Device& device) {
  if (balance == balance_) return {};
  RK_CHECK(balance->size() == config_.layers.size(), "{} layers of balance", balance->size());
  std::vector<QkNorms> norms;
  for (size_t i = 0; i < balance->size(); ++i)
    norms.push_back(
        RK_TRY(QkNorms::fold(config_.layers[i], weights_.layers[i], (*balance)[i], device)));
  qk_norms_ = std::move(norms);
  balance_ = std::move(balance);
  return {};
}

Status Decoder::forward(const Batch& batch, const kv::Store& store, kernels::Exec& exec) {
  const int64_t rows = static_cast<int64_t>(batch.tokens.size());
  RK_CHECK(rows > 0 && rows <= a_.max_rows, "{} rows, at most {}", rows, a_.max_rows);
  auto& device = exec.device();
  adapter_rows_ = batch.adapters;
  Step step{rows, batch, store, exec};
  const int32_t zero = 0;
  device.copy_in(reinterpret_cast<std::byte*>(a_.tokens), batch.tokens.data(),
                 sizeof(int32_t) * batch.tokens.size());
  device.copy_in(reinterpret_cast<std::byte*>(a_.positions), batch.positions.data(),
                 sizeof(int32_t) * batch.positions.size());
  device.copy_in(reinterpret_cast<std::byte*>(a_.non_finite), &zero, sizeof(zero));

  if (a_.query_scale != nullptr) fill_query_scale(batch, device);
  ropes_.fill(a_.positions, rows, ops_, exec);
  kernels::run(ops_.embed,
               kernels::EmbedParams{.table = &weights_.embedding.tensor,
                                    .tokens = a_.tokens,
                                    .rows = rows,
                                    .scale = config_.embedding_scale,
                                    .out = a_.x},
               exec);
  before_layers(step);
  for (size_t i = 0; i < weights_.layers.size(); ++i) {
    if (heartbeat_) heartbeat_();
    layer(static_cast<int>(i), weights_.layers[i], step);
  }
  after_layers(step);

  int32_t non_finite = 0;
  device.copy_out(&non_finite, reinterpret_cast<std::byte*>(a_.non_finite), sizeof(non_finite));
  if (non_finite != 0)
    return make_error(ErrorKind::runtime, "a key or value turned non-finite (NaN or infinity)");
  return {};
}

void Decoder::logits(std::span<const int64_t> rows, float* out, kernels::Exec& exec) {
  const int64_t n = static_cast<int64_t>(rows.size());
  RK_CHECK(n > 0 && n <= kMaxLogitRows, "{} logit rows", n);
  auto& device = exec.device();
  const size_t row_bytes = static_cast<size_t>(config_.hidden) * sizeof(float);
  for (int64_t i = 0; i < n; ++i)
    device.copy(
        reinterpret_cast<std::byte*>(a_.picked + i * config_.hidden),
        reinterpret_cast<const std::byte*>(a_.x + rows[static_cast<size_t>(i)] * config_.hidden),
        row_bytes);
  kernels::run(ops_.rms_norm,
               kernels::RmsNormParams{.x = a_.picked,
                                      .x_stride = config_.hidden,
                                      .rows = n,
                                      .cols = config_.hidden,
                                      .weight = weights_.final_norm.data(),
                                      .eps = config_.norm_eps,
                                      .centred = config_.norm == NormKind::layer,
                                      .y = a_.picked,
                                      .y_stride = config_.hidden},
               exec);
  const LinearOutput head{&weights_.head(), nullptr, a_.logits, config_.vocab_size};
  const kernels::LinearParams params{.x = a_.picked,
                                     .x_stride = config_.hidden,
                                     .rows = n,
                                     .outputs = &head,
                                     .n_outputs = 1,
                                     .exact = exact_};
  kernels::run(ops_.linear, params, exec);
  std::vector<AdapterRows> picked;  // those of the rows that go through an adapter
  for (int64_t i = 0; i < n; ++i)
    for (const AdapterRows& run : adapter_rows_)
      if (rows[static_cast<size_t>(i)] >= run.row0 &&
          rows[static_cast<size_t>(i)] < run.row0 + run.rows)
        picked.push_back({i, 1, run.adapter});
  adapters_.add(params, picked, ops_, exec);
  if (config_.logit_softcap > 0)
    kernels::run(ops_.softcap,
                 kernels::SoftcapParams{
                     .x = a_.logits, .n = n * config_.vocab_size, .cap = config_.logit_softcap},
                 exec);
  device.sync();
  device.copy_out(out, reinterpret_cast<const std::byte*>(a_.logits),
                  static_cast<size_t>(n * config_.vocab_size) * sizeof(float));
}

}  // namespace ringkeep::models
