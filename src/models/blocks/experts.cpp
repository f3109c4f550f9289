// Mixture of experts (Shazeer et al. 2017, arXiv 1701.06538): a router chooses a few feed-forwards
// for each row; the rows of an expert are computed together, and each row adds up its own in
// ascending order of experts. So a row's result depends on that row alone.
#include <algorithm>

#include "models/blocks/decoder.h"

namespace ringkeep::models {

using kernels::GroupedOutput;
using kernels::LinearOutput;

void Decoder::experts(const weights::ExpertWeights& w, const float* router_in, const float* in,
                      Step& step) {
  const int64_t hidden = config_.hidden;
  const int used = config_.experts_used;
  // Who is chosen hangs on small differences: no row is coarse here.
  const LinearOutput scores{&w.router.tensor, w.router_bias.data(), a_.router, config_.experts};
  kernels::run(ops_.linear,
               kernels::LinearParams{.x = router_in,
                                     .x_stride = hidden,
                                     .rows = step.rows,
                                     .outputs = &scores,
                                     .n_outputs = 1,
                                     .exact = exact_},
               step.exec);
  for (int64_t row0 = 0; row0 < step.rows; row0 += kMaxExpertRows) {
    const int64_t rows = std::min(kMaxExpertRows, step.rows - row0);
    kernels::run(
        ops_.route,
        kernels::RouteParams{.logits = a_.router + row0 * config_.experts,
                             .rows = rows,
                             .experts = config_.experts,
                             .used = used,
                             .scores = config_.expert_sigmoid_input ? kernels::RouteScores::sigmoid
                                                                    : kernels::RouteScores::softmax,
                             .renormalize = config_.expert_renormalize,
                             .expert_scale = w.scale.data(),
                             .fine_rows = std::clamp<int64_t>(step.batch.fine_rows - row0, 0, rows),
                             .expert = a_.expert,
                             .weight = a_.expert_weight,
                             .place = a_.place,
                             .row_of = a_.row_of,
                             .begin = a_.begin,
                             .fine = a_.fine,
                             .place_weight = a_.place_weight},
        step.exec);
    expert_products(w, in + row0 * hidden, rows, step);
    kernels::run(ops_.combine,
                 kernels::CombineParams{.x = a_.expert_out,
                                        .weight = a_.expert_weight,
                                        .place = a_.place,
                                        .rows = rows,
                                        .used = used,
                                        .cols = hidden,
                                        .y = a_.branch + row0 * hidden},
                 step.exec);
  }
}

// a_.expert_out [places, hidden] of `rows` rows of `in`, which have been routed. Where only some
// experts are in memory, those that have rows go through it in turns, in ascending order.
void Decoder::expert_products(const weights::ExpertWeights& w, const float* in, int64_t rows,
                              Step& step) {
  const int experts = config_.experts;
  if (w.cached < 0) {
    expert_products_of(w, in, rows, {0, experts, 0, rows * config_.experts_used}, step);
    return;
  }
  kernels::Device& device = step.exec.device();
  begin_.resize(static_cast<size_t>(experts) + 1);
  device.sync();
  device.copy_out(begin_.data(), reinterpret_cast<const std::byte*>(a_.begin),
                  begin_.size() * sizeof(int32_t));
  for (int first = 0; first < experts;) {
    device.sync();  // nobody reads an expert any more that is now replaced
    const int end = weights_.expert_cache->hold(w.cached, begin_, first, heartbeat_);
    const int64_t place0 = begin_[static_cast<size_t>(first)];
    const int64_t places = begin_[static_cast<size_t>(end)] - place0;
    if (places > 0) expert_products_of(w, in, rows, {first, end, place0, places}, step);
    first = end;
  }
}

void Decoder::expert_products_of(const weights::ExpertWeights& w, const float* in, int64_t rows,
                                 const ExpertRange& range, Step& step) {
  const int64_t hidden = config_.hidden, width = config_.expert_hidden;
  const auto part = [&](const weights::OwnedStack& stack) {
    kernels::PackedStack out = stack.stack;
    if (out.slot != nullptr) {
      out.slot += range.first;
      out.count = range.end - range.first;
    }
    return out;
  };
  const auto bias = [&](const weights::OwnedVector& bias, int64_t outputs) {
    return bias.size > 0 ? bias.data() + range.first * outputs : nullptr;
  };
  const kernels::PackedStack gate = part(w.gate), up = part(w.up), down = part(w.down);
  kernels::GroupedLinearParams product{.x = in,
                                       .x_stride = hidden,
                                       .row_of = a_.row_of,
                                       .places = rows * config_.experts_used,
                                       .groups = range.end - range.first,
                                       .begin = a_.begin + range.first,
                                       .fine = a_.fine + range.first,
                                       .exact = exact_};
  const GroupedOutput inner[] = {{&gate, bias(w.gate_bias, width), a_.expert_gate, width},
                                 {&up, bias(w.up_bias, width), a_.expert_up, width}};
  product.outputs = inner;
  product.n_outputs = 2;
  kernels::run(ops_.grouped_linear, product, step.exec);
  const int64_t at = range.place0 * width;
  if (a_.place_weight != nullptr)  // of the input, on its products: W (s x) = s (W x)
    for (float* inner_product : {a_.expert_gate + at, a_.expert_up + at})
      kernels::run(
          ops_.norm_rope,
          kernels::NormRopeParams{.x = inner_product,
                                  .x_stride = width,
                                  .rows = range.places,
                                  .heads = 1,
                                  .dim = static_cast<int>(width),
                                  .transform = {.row_scale = a_.place_weight + range.place0}},
          step.exec);
  gated(a_.expert_gate + at, a_.expert_up + at, range.places, width, step);
  const GroupedOutput outer{&down, bias(w.down_bias, hidden), a_.expert_out, hidden};
  product.x = a_.expert_gate;
  product.x_stride = width;
  product.row_of = nullptr;
  product.outputs = &outer;
  product.n_outputs = 1;
  kernels::run(ops_.grouped_linear, product, step.exec);
}

void Decoder::add_shared_expert(const weights::ExpertWeights& w, const float* in, Step& step) {
  gated_product(w.shared_gate, w.shared_up, w.shared_down, in, a_.shared, step);
  if (w.shared_router) {
    const LinearOutput gate[] = {{&w.shared_router.tensor, nullptr, a_.shared_gate, 1}};
    linear(in, config_.hidden, gate, step);
  }
  kernels::run(ops_.add,
               kernels::AddParams{.x = a_.shared,
                                  .y = a_.branch,
                                  .n = step.rows * config_.hidden,
                                  .gate = w.shared_router ? a_.shared_gate : nullptr,
                                  .cols = config_.hidden},
               step.exec);
}

}  // namespace ringkeep::models
