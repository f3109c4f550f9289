// Llama 4 (Meta 2025), text. Layers with a rotary embedding see their chunk of the text alone, and
// norm q and k without weights (a rotation leaves the norm as it is, so it comes first here); every
// few layers one sees everything, without positions, its queries growing slowly with the length.
// One expert is chosen, whose input is multiplied by the sigmoid of its logit, beside one that
// every token meets; Maverick has dense layers in between. attention() sees to q and k by the
// layer's spec.
#include "models/families.h"

namespace ringkeep::models {

void Llama4::layer(int index, const weights::LayerWeights& w, Step& step) {
  norm(a_.x, w.attn_norm, nullptr, a_.h, step);
  attention(index, w, step);
  add_branch(step);

  norm(a_.x, w.ffn_norm, nullptr, a_.h, step);
  if (w.experts) {
    experts(w.experts, a_.h, a_.h, step);
    add_shared_expert(w.experts, a_.h, step);
  } else {
    feed_forward(w, step);
  }
  add_branch(step);
}

}  // namespace ringkeep::models
