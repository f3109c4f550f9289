// `run --prompt-cache-file`: a cache read before the prompt and written back after the reply.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

#include "base/result.h"
#include "cli/generate.h"
#include "config/cache_flags.h"
#include "engine/engine.h"
#include "prompt/prompt.h"
#include "text/chat_template.h"

namespace ringkeep::cli {

struct PromptCacheOptions {
  std::string file;
  bool read_only = false;
};
void add_prompt_cache_options(CLI::App& app, PromptCacheOptions& options);

class PromptCache {
 public:
  explicit PromptCache(PromptCacheOptions options) : options_(std::move(options)) {}
  bool used() const { return !options_.file.empty(); }
  // What the cache must be planned for.
  void require(CacheFlags& flags, bool has_prefix_cache) const;
  // Whether what save() writes could be written now. Errors: see AtomicFile.
  Status check() const;
  // Reads the file if it is there. Errors: see Engine::load_cache; read-only and not there.
  Status load(engine::Engine& engine);
  // The loaded tokens are not known: a prompt goes on from them, without BOS.
  bool continues() const { return loaded_ && loaded_->snapshot.has_value(); }
  // Gives the request what was loaded.
  void apply(engine::Request& request) const;
  // Says how much of the loaded cache served the prompt, before there is a reply.
  void report(std::span<const int32_t> prompt, const engine::GenerationStats& stats) const;
  // Writes the state after `tokens` (prompt and reply) back, unless that is not wanted or not
  // possible (said on stderr).
  Status save(engine::Engine& engine, std::span<const int32_t> tokens) const;

 private:
  PromptCacheOptions options_;
  std::optional<engine::LoadedCache> loaded_;
};

// The tokens that go on from a conversation whose beginning is in a cache: the text alone, or what
// the template writes from the text on.
Result<prompt::Prompt> build_continuation(const text::Tokenizer& tokenizer,
                                          const text::ChatTemplate* chat_template,
                                          const std::string& text);

}  // namespace ringkeep::cli
