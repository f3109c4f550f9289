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
  const int64_t hidden = config_.hidden, width = config_.expert_hidden;
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
    kernels::GroupedLinearParams product{.x = in + row0 * hidden,
                                         .x_stride = hidden,
                                         .row_of = a_.row_of,
                                         .places = rows * used,
                                         .groups = config_.experts,
                                         .begin = a_.begin,
                                         .fine = a_.fine,
                                         .exact = exact_};
    const GroupedOutput inner[] = {{&w.gate.stack, w.gate_bias.data(), a_.expert_gate, width},
                                   {&w.up.stack, w.up_bias.data(), a_.expert_up, width}};
    product.outputs = inner;
    product.n_outputs = 2;
    kernels::run(ops_.grouped_linear, product, step.exec);
    if (a_.place_weight != nullptr)  // of the input, on its products: W (s x) = s (W x)
      for (float* product : {a_.expert_gate, a_.expert_up})
        kernels::run(ops_.norm_rope,
                     kernels::NormRopeParams{.x = product,
                                             .x_stride = width,
                                             .rows = rows * used,
                                             .heads = 1,
                                             .dim = static_cast<int>(width),
                                             .transform = {.row_scale = a_.place_weight}},
                     step.exec);
    gated(a_.expert_gate, a_.expert_up, rows * used, width, step);
    const GroupedOutput outer{&w.down.stack, w.down_bias.data(), a_.expert_out, hidden};
    product.x = a_.expert_gate;
    product.x_stride = width;
    product.row_of = nullptr;
    product.outputs = &outer;
    product.n_outputs = 1;
    kernels::run(ops_.grouped_linear, product, step.exec);
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
