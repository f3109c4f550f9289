// LAuReL (Menghani, Kumar, Kumar 2024, arXiv 2411.07501): beside a layer's branch, the residual is
// joined by a low-rank map of itself.
#include "models/blocks/decoder.h"

namespace ringkeep::models {

using kernels::LinearOutput;

void Decoder::laurel(const weights::LaurelWeights& w, const float* in, Step& step) {
  const LinearOutput left[] = {{&w.left.tensor, nullptr, a_.laurel_mid, config_.laurel_rank}};
  linear(in, config_.hidden, left, step);
  const LinearOutput right[] = {{&w.right.tensor, nullptr, a_.laurel, config_.hidden}};
  linear(a_.laurel_mid, config_.laurel_rank, right, step);
  norm(a_.laurel, w.norm, in, a_.laurel, step);
}

}  // namespace ringkeep::models
