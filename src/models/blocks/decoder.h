// The blocks that the families' forward passes are written in. Decoder holds what every family has:
// weights, activations, rotary tables; a family derives from it and spells out one layer.
#pragma once

#include <optional>

#include "models/blocks/activations.h"
#include "models/blocks/qk_norms.h"
#include "models/model.h"

namespace ringkeep::models {

class Decoder : public Model {
 public:
  Decoder(ModelConfig config, weights::DecoderWeights weights, Activations activations,
          RopeTables ropes, const kernels::Ops& ops)
      : config_(std::move(config)),
        weights_(std::move(weights)),
        a_(std::move(activations)),
        ropes_(std::move(ropes)),
        ops_(ops),
        qk_norms_(config_.layers.size()) {}

  Status forward(const Batch& batch, const kv::Store& store, kernels::Exec& exec) final;
  void logits(std::span<const int64_t> rows, float* out, kernels::Exec& exec) final;
  Status set_key_balance(std::shared_ptr<const weights::KeyBalance> balance,
                         kernels::Device& device) final;
  void set_exact(bool exact) final { exact_ = exact; }
  void observe_keys(KeyStatistics* statistics) final { statistics_ = statistics; }
  void observe_inputs(InputStatistics* statistics) final { inputs_ = statistics; }
  void set_heartbeat(std::function<void()> heartbeat) final { heartbeat_ = std::move(heartbeat); }
  Status reserve_adapter(const weights::AdapterSizes& sizes, kernels::Device& device) final {
    return adapters_.reserve(sizes, a_.max_rows, kMaxLogitRows, device);
  }
  int64_t max_logit_rows() const final { return kMaxLogitRows; }
  const weights::DecoderWeights& weights() const final { return weights_; }
  size_t activation_bytes() const final { return a_.memory.size() + adapters_.bytes(); }

 protected:
  // What a layer runs with.
  struct Step {
    int64_t rows;
    const Batch& batch;
    const kv::Store& store;
    kernels::Exec& exec;
  };
  // What a family needs once a step, after a_.x holds the embeddings.
  virtual void before_layers(Step&) {}
  // One transformer layer: a_.x [rows, hidden] in and out.
  virtual void layer(int index, const weights::LayerWeights& w, Step& step) = 0;
  // What a family needs before a_.x is what logits are made of.
  virtual void after_layers(Step&) {}

  // y = norm(x) * weight (+ residual), of the kind that the model has; all [rows, hidden].
  void norm(const float* x, const weights::OwnedVector& weight, const float* residual, float* y,
            Step& step);
  // a_.x += norm(a_.branch) * weight
  void add_normed(const weights::OwnedVector& weight, Step& step) {
    norm(a_.branch, weight, a_.x, a_.x, step);
  }
  void add_branch(Step& step);  // a_.x += a_.branch
  // a_.x *= factors [hidden], elementwise
  void multiply(const weights::OwnedVector& factors, Step& step);
  // a_.h, or in [rows, hidden], -> q, k, v -> (q, k and v norms) -> RoPE -> cache -> attention -> o
  // -> a_.branch; k meets its norm and RoPE on the way into the cache. A layer that shares a cache
  // has q alone.
  void attention(int index, const weights::LayerWeights& w, Step& step) {
    attention(index, w, a_.h, step);
  }
  void attention(int index, const weights::LayerWeights& w, const float* in, Step& step);
  // a_.h, or in [rows, hidden], -> down(act(gate) * up) -> a_.branch. With `deviations` the gate
  // counts from so many standard deviations above its mean.
  void feed_forward(const weights::LayerWeights& w, Step& step) { feed_forward(w, a_.h, step); }
  void feed_forward(const weights::LayerWeights& w, const float* in, Step& step,
                    std::optional<float> deviations = {});
  // in [rows, hidden] -> the sum of each row's experts, which a router chooses from router_in
  // [rows, hidden] -> a_.branch. (blocks/experts.cpp)
  void experts(const weights::ExpertWeights& w, const float* router_in, const float* in,
               Step& step);
  // a_.branch += an expert of every row, times sigmoid(gate(in)) where there is a gate
  void add_shared_expert(const weights::ExpertWeights& w, const float* in, Step& step);
  // Per-layer embeddings (blocks/layer_embeddings.cpp): those of the step's tokens, for all layers,
  // from a_.x -> a_.layer_in
  void embed_layers(Step& step);
  // out(act(gate in) * layer_in) -> a_.branch; in [rows, hidden]
  void layer_embedding(int index, const weights::LayerWeights& w, const float* in, Step& step);
  // AltUp (blocks/altup.cpp): a_.x -> a_.streams before the layers, and back after them.
  void open_streams(Step& step);
  void close_streams(Step& step);
  float* stream(int i, Step& step) { return a_.streams + i * step.rows * config_.hidden; }
  // Streams after the layer as far as they can be told before it; the active one is its input.
  void predict_streams(const weights::AltUpWeights& w, Step& step);
  // ... set right by a_.x, which the layer made of the active one.
  void correct_streams(const weights::AltUpWeights& w, Step& step);
  // a_.laurel = in + norm(right(left in)); in [rows, hidden] (LAuReL, Menghani et al. 2024)
  void laurel(const weights::LaurelWeights& w, const float* in, Step& step);
  kernels::GluKind glu_kind() const {
    return config_.activation == Activation::silu        ? kernels::GluKind::silu
           : config_.activation == Activation::gelu_tanh ? kernels::GluKind::gelu_tanh
                                                         : kernels::GluKind::clamped_swiglu;
  }
  // gate = act(gate) * up; both [rows, cols]
  void gated(float* gate, const float* up, int64_t rows, int64_t cols, Step& step);
  // out [rows, hidden] = down(act(gate in) * up in), by way of a_.gate and a_.up.
  void gated_product(const weights::OwnedTensor& gate, const weights::OwnedTensor& up,
                     const weights::OwnedTensor& down, const float* in, float* out, Step& step,
                     std::optional<float> deviations = {});
  // y = x W^T of every row of the step, with what the rows' adapters add.
  void linear(const float* x, int64_t x_stride, std::span<const kernels::LinearOutput> outputs,
              Step& step);

  ModelConfig config_;
  weights::DecoderWeights weights_;
  Activations a_;
  RopeTables ropes_;
  const kernels::Ops& ops_;

 private:
  // a_.modalities of the rows x [rows, hidden]
  void modalities(const weights::AltUpWeights& w, const float* x, Step& step);
  // x = RMSNorm(x) * weight over all heads, in place; x [rows, weight.size]. Nothing without
  // weights.
  void norm_whole(float* x, const weights::OwnedVector& weight, Step& step);
  // Experts [first, end) and their places. (blocks/experts.cpp)
  struct ExpertRange {
    int first = 0, end = 0;
    int64_t place0 = 0, places = 0;
  };
  void expert_products(const weights::ExpertWeights& w, const float* in, int64_t rows, Step& step);
  void expert_products_of(const weights::ExpertWeights& w, const float* in, int64_t rows,
                          const ExpertRange& range, Step& step);
  // The factors of the queries of a step by position, into a_.query_scale.
  void fill_query_scale(const Batch& batch, kernels::Device& device);
  kernels::HeadTransform transform(const HeadScale& scale, int index) const;
  // x [rows, heads, dim], in place
  void apply(const kernels::HeadTransform& transform, float* x, int heads, int dim, Step& step);

  bool exact_ = false;
  std::shared_ptr<const weights::KeyBalance> balance_;  // null: none
  std::vector<QkNorms> qk_norms_;                       // [layers] with the K balance
  std::vector<float> table_rows_;                       // of per-layer embeddings, on the host
  AdapterProducts adapters_;
  std::vector<AdapterRows> adapter_rows_;  // of the last forward, for its logits
  KeyStatistics* statistics_ = nullptr;
  InputStatistics* inputs_ = nullptr;
  std::function<void()> heartbeat_;
  std::vector<int32_t> begin_;  // [experts + 1] of the last routing, on the host
};

}  // namespace ringkeep::models
