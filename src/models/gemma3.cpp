// Gemma 3 (Gemma Team 2025, arXiv 2503.19786), text, and Gemma 2 (2024, arXiv 2408.00118), which
// has soft-caps in place of q and k norms. Each branch is normed on both sides; q and k are normed
// per head; the embedding is scaled by sqrt(hidden); layers alternate between a sliding window and
// full attention, with a RoPE base each.
#include "models/families.h"

namespace ringkeep::models {

void Gemma3::layer(int index, const weights::LayerWeights& w, Step& step) {
  norm(a_.x, w.attn_norm, nullptr, a_.h, step);
  attention(index, w, step);
  add_normed(w.post_attn_norm, step);

  norm(a_.x, w.ffn_norm, nullptr, a_.h, step);
  feed_forward(w, step);
  add_normed(w.post_ffn_norm, step);
}

}  // namespace ringkeep::models
