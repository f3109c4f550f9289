// The families that models/ registers. Configurations of other families are described too, for
// `plan`, but details that only a forward pass needs are then not insisted upon.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace ringkeep::checkpoint {

inline constexpr std::array<std::string_view, 5> kFamilies = {"gemma3", "gemma4", "llama",
                                                              "mistral", "qwen3"};

inline bool is_known_family(std::string_view family) {
  return std::find(kFamilies.begin(), kFamilies.end(), family) != kFamilies.end();
}

}  // namespace ringkeep::checkpoint
