// Drives one generation of the engine to its end, and reports on it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/output.h"
#include "engine/engine.h"

namespace ringkeep::cli {

struct Generation {
  std::string text;
  std::string reasoning;        // where the view of the reply tells it apart
  std::vector<int32_t> tokens;  // generated ids
  engine::FinishReason finish = engine::FinishReason::none;
  bool interrupted = false;  // Ctrl-C ended it
  engine::GenerationStats stats;
  size_t kv_bytes = 0;  // most cache bytes in use after a step
};

// `on_text` gets text as it becomes certain; its error ends the generation and is returned.
// `on_prompt` comes before it, once the prompt has been read. Ctrl-C ends it early without an
// error.
Result<Generation> generate(
    engine::Engine& engine, engine::Request request,
    const std::function<Status(const std::string&)>& on_text,
    const std::function<void(const engine::GenerationStats&)>& on_prompt = {});

Json generation_json(const Generation& generation);
// One line: tokens, speed, cache bytes, memory.
std::string generation_summary(const engine::Engine& engine, const Generation& generation);

}  // namespace ringkeep::cli
