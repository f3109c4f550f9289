// The families that models/ registers. Configurations of other families are described too, for
// `plan`, but details that only a forward pass needs are then not insisted upon.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace ringkeep::checkpoint {

inline constexpr auto kFamilies = std::to_array<std::string_view>(
    {"gemma3",     "gemma3n",  "gemma4",    "llama",     "mistral", "qwen3",   "qwen2",
     "gemma2",     "phi3",     "smollm3",   "olmo2",     "olmo3",   "cohere2", "ministral",
     "ministral3", "mistral3", "qwen3_moe", "qwen2_moe", "gpt_oss", "llama4"});

inline bool is_known_family(std::string_view family) {
  return std::find(kFamilies.begin(), kFamilies.end(), family) != kFamilies.end();
}

}  // namespace ringkeep::checkpoint
