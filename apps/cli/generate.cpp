#include "cli/generate.h"

#include <algorithm>
#include <utility>

#include "cli/interrupt.h"
#include "cli/machine.h"

namespace ringkeep::cli {

Result<Generation> generate(engine::Engine& engine, engine::Request request,
                            const std::function<Status(const std::string&)>& on_text,
                            const std::function<void(const engine::GenerationStats&)>& on_prompt) {
  Generation generation;
  bool began = false;
  const InterruptScope scope;
  const int64_t id = RK_TRY(engine.submit(std::move(request)));
  while (!engine.idle()) {
    if (scope.interrupted()) {
      generation.interrupted = true;
      generation.stats = engine.stats(id);
      engine.cancel(id);
      return generation;
    }
    for (engine::Event& event : engine.step()) {
      if (event.id != id) continue;
      if (event.error) return std::move(*event.error);
      if (!std::exchange(began, true) && on_prompt) on_prompt(engine.stats(id));
      if (!event.text.empty()) {
        Status shown = on_text(event.text);
        if (!shown.ok()) {
          engine.cancel(id);
          return std::move(shown).error();
        }
      }
      generation.text += event.text;
      generation.tokens.insert(generation.tokens.end(), event.tokens.begin(), event.tokens.end());
      if (event.finish != engine::FinishReason::none) generation.finish = event.finish;
    }
    generation.kv_bytes = std::max(generation.kv_bytes, engine.store().bytes_used());
  }
  generation.stats = engine.stats(id);
  return generation;
}

namespace {

double prefilled_tokens(const engine::GenerationStats& stats) {
  return static_cast<double>(stats.prompt_tokens - stats.cached_tokens);
}

// The first output token comes out of the prefill; decode steps give the rest.
double decoded_tokens(const Generation& generation) {
  return static_cast<double>(std::max<int64_t>(0, generation.stats.generated_tokens - 1));
}

}  // namespace

Json generation_json(const Generation& generation) {
  const engine::GenerationStats& stats = generation.stats;
  Json json = {
      {"text", generation.text},
      {"tokens", generation.tokens},
      {"finish_reason",
       generation.interrupted ? "interrupted" : engine::finish_reason_name(generation.finish)},
      {"prompt_tokens", stats.prompt_tokens},
      {"cached_tokens", stats.cached_tokens},
      {"prefill_tok_s", rate_json(prefilled_tokens(stats), stats.prefill_seconds)},
      {"decode_tok_s", rate_json(decoded_tokens(generation), stats.decode_seconds)},
      {"kv_bytes", generation.kv_bytes},
      {"peak_rss_bytes", peak_memory_bytes()},
  };
  if (!generation.reasoning.empty()) json["reasoning"] = generation.reasoning;
  return json;
}

std::string generation_summary(const engine::Engine& engine, const Generation& generation) {
  const engine::GenerationStats& stats = generation.stats;
  return fmt::format(
      "prompt {} tokens{}, {} | generated {} tokens, {} | cache {} in use, {} planned | peak "
      "memory "
      "{}",
      stats.prompt_tokens,
      stats.cached_tokens > 0 ? fmt::format(" ({} cached)", stats.cached_tokens) : "",
      rate_text(prefilled_tokens(stats), stats.prefill_seconds), stats.generated_tokens,
      rate_text(decoded_tokens(generation), stats.decode_seconds),
      human_bytes(static_cast<double>(generation.kv_bytes)),
      human_bytes(static_cast<double>(engine.plan().kv_bytes + engine.plan().kv_prefill_bytes +
                                      engine.plan().prefix_cache_bytes)),
      human_bytes(static_cast<double>(peak_memory_bytes())));
}

}  // namespace ringkeep::cli
