#include "checkpoint/gguf_gating.h"

namespace ringkeep::checkpoint {

Status read_expert_gating(const GgufFile& file, const std::string& arch, ModelConfig& config) {
  constexpr int64_t kFamily = 0, kSoftmax = 1, kSoftmaxOfChosen = 3;
  const std::string key = arch + ".expert_gating_func";
  const int64_t function = RK_TRY(file.integer(key, kFamily));
  if (function != kFamily && function != kSoftmax && function != kSoftmaxOfChosen)
    return input_error("{}: {}: {} is not supported for {}, expected {} or {} (softmax)",
                       file.name(), key, function, arch, kSoftmax, kSoftmaxOfChosen);
  config.expert_renormalize =
      RK_TRY(file.boolean(arch + ".expert_weights_norm", config.expert_renormalize));
  if (function == kSoftmaxOfChosen || (function == kFamily && arch == "gpt-oss"))
    config.expert_renormalize = true;
  return {};
}

}  // namespace ringkeep::checkpoint
