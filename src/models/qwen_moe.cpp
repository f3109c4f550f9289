// Qwen 3 with experts (Qwen Team 2025, arXiv 2505.09388) and Qwen 2 with experts (2024, arXiv
// 2407.10671): the dense models' layers with a mixture of experts for the feed-forward, but for
// layers that the configuration leaves dense. In Qwen 2 one more expert, behind a gate, sees every
// token.
#include "models/families.h"

namespace ringkeep::models {

void QwenMoe::layer(int index, const weights::LayerWeights& w, Step& step) {
  norm(a_.x, w.attn_norm, nullptr, a_.h, step);
  attention(index, w, step);
  add_branch(step);

  norm(a_.x, w.ffn_norm, nullptr, a_.h, step);
  if (w.experts) {
    experts(w.experts, a_.h, a_.h, step);
    if (w.experts.shared_gate) add_shared_expert(w.experts, a_.h, step);
  } else {
    feed_forward(w, step);
  }
  add_branch(step);
}

}  // namespace ringkeep::models
