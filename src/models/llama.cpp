// Llama 2 and 3 (Touvron et al. 2023, arXiv 2302.13971; Llama Team 2024, arXiv 2407.21783), Mistral
// (Jiang et al. 2023, arXiv 2310.06825) and Qwen 3 dense (Qwen Team 2025, arXiv 2505.09388):
// pre-norm, rotary embedding, grouped queries, SwiGLU. Mistral's sliding window is a matter of the
// layers' specs, Qwen's norm of each q and k head of the weights that are there: attention() sees
// to both.
#include "models/families.h"

namespace ringkeep::models {

void Llama::layer(int index, const weights::LayerWeights& w, Step& step) {
  norm(a_.x, w.attn_norm, nullptr, a_.h, step);
  attention(index, w, step);
  add_branch(step);

  norm(a_.x, w.ffn_norm, nullptr, a_.h, step);
  feed_forward(w, step);
  add_branch(step);
}

}  // namespace ringkeep::models
