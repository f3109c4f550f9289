// A text cut into windows for measuring: each begins as a text of the model does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace ringkeep::cli {

struct Windows {
  std::vector<int32_t> head;    // BOS, or none
  std::vector<int32_t> tokens;  // the rest
  size_t used = 0;
  // The next window of at most `size` tokens in all; empty when the text is used up.
  std::vector<int32_t> next(int64_t size);
};

// Of a text, or of token ids as they are. Errors (usage): no tokens; a context of the engine that
// holds no more than the head.
Result<Windows> text_windows(const std::string& text, const engine::Engine& engine);
Result<Windows> token_windows(std::vector<int32_t> tokens, const engine::Engine& engine);

}  // namespace ringkeep::cli
