// Cohere 2 (Command R7B, Command A: Cohere 2025, arXiv 2504.00698): attention and feed-forward read
// the same normed input and are added together; LayerNorm without a bias. Sliding layers turn q and
// k (pairs (2i, 2i + 1), which the loader reorders), full ones have no positions at all. The scale
// of the logits is part of the final norm's weights.
#include "models/families.h"

namespace ringkeep::models {

void Cohere2::layer(int index, const weights::LayerWeights& w, Step& step) {
  norm(a_.x, w.attn_norm, nullptr, a_.h, step);
  attention(index, w, step);
  add_branch(step);
  feed_forward(w, step);
  add_branch(step);
}

}  // namespace ringkeep::models
