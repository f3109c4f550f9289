// Llama 2 and 3 (Touvron et al. 2023, arXiv 2302.13971; Llama Team 2024, arXiv 2407.21783), Mistral
// (Jiang et al. 2023, arXiv 2310.06825), Ministral 3, Qwen 2 and 3 dense (Qwen Team 2024, arXiv
// 2407.10671; 2025, arXiv 2505.09388), Phi-3 and 4 (Abdin et al. 2024, arXiv 2404.14219) and SmolLM
// 3: pre-norm, rotary embedding, grouped queries, SwiGLU. Windows, layers without rotary embedding
// and partial or scaled ones are a matter of the layers' specs; Qwen 3's norm of each q and k head
// and Qwen 2's biases of the weights that are there; Ministral's scaled queries of the
// configuration: attention() sees to all. Phi's fused matrices are cut when they are loaded.
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
