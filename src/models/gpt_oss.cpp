// GPT-OSS (OpenAI 2025, arXiv 2508.10925): layers alternate between a window of 128 and full
// attention, in both of which a learned logit of each head takes part in the softmax; every
// feed-forward is a mixture of experts with biases and a clamped SwiGLU.
#include "models/families.h"

namespace ringkeep::models {

void GptOss::layer(int index, const weights::LayerWeights& w, Step& step) {
  norm(a_.x, w.attn_norm, nullptr, a_.h, step);
  attention(index, w, step);
  add_branch(step);

  norm(a_.x, w.ffn_norm, nullptr, a_.h, step);
  experts(w.experts, a_.h, a_.h, step);
  add_branch(step);
}

}  // namespace ringkeep::models
