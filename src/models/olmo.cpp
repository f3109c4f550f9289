// OLMo 2 and 3 (OLMo Team 2024, arXiv 2501.00656; 2025, arXiv 2512.13961): what a branch adds is
// normed, not what it reads; q and k are normed over all their heads at once. In OLMo 3 three of
// four layers slide, and only the others scale their rotary embedding.
#include "models/families.h"

namespace ringkeep::models {

void Olmo::layer(int index, const weights::LayerWeights& w, Step& step) {
  attention(index, w, a_.x, step);
  add_normed(w.post_attn_norm, step);

  feed_forward(w, a_.x, step);
  add_normed(w.post_ffn_norm, step);
}

}  // namespace ringkeep::models
