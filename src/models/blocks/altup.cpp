// AltUp (Baykal et al. 2023, arXiv 2301.13310), as Gemma 3n has it: the residual is several streams
// of the model's width, of which a layer computes one. What the others get from it is predicted
// before the layer and corrected after it, by small maps of a row's modalities. A row's result
// depends on that row alone.
#include "models/blocks/decoder.h"

namespace ringkeep::models {

using kernels::LinearOutput;

namespace {
constexpr float kLeastSquare = 1e-5f;  // mean square of a stream that is brought to another's size
}

// Stream 0 is the embedding, the others are projections of it, as large.
void Decoder::open_streams(Step& step) {
  const int64_t hidden = config_.hidden;
  RK_CHECK(config_.altup_streams <= kernels::kMostStreams, "{} streams", config_.altup_streams);
  step.exec.device().copy(reinterpret_cast<std::byte*>(stream(0, step)),
                          reinterpret_cast<const std::byte*>(a_.x),
                          static_cast<size_t>(step.rows * hidden) * sizeof(float));
  for (int i = 1; i < config_.altup_streams; ++i) {
    const weights::OwnedTensor& proj = weights_.altup_proj[static_cast<size_t>(i - 1)];
    const LinearOutput out[] = {{&proj.tensor, nullptr, stream(i, step), hidden}};
    linear(a_.x, hidden, out, step);
    kernels::run(ops_.match_rms,
                 kernels::MatchRmsParams{.like = a_.x,
                                         .rows = step.rows,
                                         .cols = hidden,
                                         .floor = kLeastSquare,
                                         .x = stream(i, step)},
                 step.exec);
  }
}

// The mean of stream 0 and of projections of the others, as large.
void Decoder::close_streams(Step& step) {
  const int64_t hidden = config_.hidden;
  const int n = config_.altup_streams;
  step.exec.device().copy(reinterpret_cast<std::byte*>(a_.x),
                          reinterpret_cast<const std::byte*>(stream(0, step)),
                          static_cast<size_t>(step.rows * hidden) * sizeof(float));
  for (int i = 1; i < n; ++i) {
    const weights::OwnedTensor& unembed = weights_.altup_unembed[static_cast<size_t>(i - 1)];
    const LinearOutput out[] = {{&unembed.tensor, nullptr, a_.branch, hidden}};
    linear(stream(i, step), hidden, out, step);
    kernels::run(ops_.match_rms,
                 kernels::MatchRmsParams{.like = stream(0, step),
                                         .rows = step.rows,
                                         .cols = hidden,
                                         .floor = kLeastSquare,
                                         .x = a_.branch},
                 step.exec);
    kernels::run(ops_.add,
                 kernels::AddParams{.x = a_.branch,
                                    .y = a_.x,
                                    .n = step.rows * hidden,
                                    .scale = i + 1 == n ? 1.0f / static_cast<float>(n) : 1.0f},
                 step.exec);
  }
}

// tanh(router(norm(x) / hidden)); the division is in the norm's weights.
void Decoder::modalities(const weights::AltUpWeights& w, const float* x, Step& step) {
  norm(x, w.router_norm, nullptr, a_.branch, step);
  const LinearOutput out[] = {{&w.router.tensor, nullptr, a_.modalities, config_.altup_streams}};
  linear(a_.branch, config_.hidden, out, step);
  kernels::run(ops_.softcap,
               kernels::SoftcapParams{
                   .x = a_.modalities, .n = step.rows * config_.altup_streams, .cap = 1.0f},
               step.exec);
}

void Decoder::predict_streams(const weights::AltUpWeights& w, Step& step) {
  modalities(w, stream(config_.altup_active, step), step);
  kernels::run(ops_.altup_predict,
               kernels::AltUpPredictParams{.x = a_.streams,
                                           .streams = config_.altup_streams,
                                           .rows = step.rows,
                                           .cols = config_.hidden,
                                           .modalities = a_.modalities,
                                           .coefs = w.predict.data()},
               step.exec);
}

void Decoder::correct_streams(const weights::AltUpWeights& w, Step& step) {
  modalities(w, a_.x, step);
  kernels::run(ops_.altup_correct,
               kernels::AltUpCorrectParams{.x = a_.streams,
                                           .streams = config_.altup_streams,
                                           .active = config_.altup_active,
                                           .rows = step.rows,
                                           .cols = config_.hidden,
                                           .modalities = a_.modalities,
                                           .coefs = w.correct.data(),
                                           .activated = a_.x},
               step.exec);
}

}  // namespace ringkeep::models
