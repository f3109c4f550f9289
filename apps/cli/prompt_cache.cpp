#include "cli/prompt_cache.h"

#include <algorithm>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/log.h"
#include "cli/interrupt.h"

namespace ringkeep::cli {

void add_prompt_cache_options(CLI::App& app, PromptCacheOptions& options) {
  const char* group = "Prompt";
  CLI::Option* file =
      app.add_option("--prompt-cache-file,--prompt-cache", options.file,
                     "go on from the cache saved in FILE where the prompt begins like it, and save "
                     "prompt and reply there; also reads prompt caches of mlx-lm")
          ->type_name("FILE")
          ->group(group);
  app.add_flag("--prompt-cache-ro", options.read_only, "do not write the file")
      ->group(group)
      ->needs(file);
}

void PromptCache::require(CacheFlags& flags, bool has_prefix_cache) const {
  if (!used()) return;
  flags.save = true;
  if (!has_prefix_cache) flags.prefix_cache_bytes = -1;
}

Status PromptCache::check() const {
  if (used() && !options_.read_only) RK_TRY(AtomicFile::create(options_.file));
  return {};
}

Status PromptCache::load(engine::Engine& engine) {
  if (!used()) return {};
  std::error_code ignored;
  if (!options_.read_only && !std::filesystem::exists(options_.file, ignored)) {
    spdlog::info("{}: not there yet, will be written", options_.file);
    return {};
  }
  loaded_ = RK_TRY(engine.load_cache(options_.file));
  if (!loaded_->note.empty()) spdlog::warn("{}: {}", options_.file, loaded_->note);
  return {};
}

void PromptCache::apply(engine::Request& request) const {
  if (continues()) request.after = loaded_->snapshot;
}

void PromptCache::report(std::span<const int32_t> prompt,
                         const engine::GenerationStats& stats) const {
  if (!loaded_) return;
  const int64_t cached = stats.cached_tokens;
  if (continues() || cached == loaded_->length) {
    fmt::print(stderr, "{}: went on from its {} tokens\n", options_.file, cached);
    return;
  }
  const auto& saved = loaded_->tokens;
  const int64_t common = std::ranges::mismatch(saved, prompt).in1 - saved.begin();
  const auto why = [&]() -> std::string {
    if (common == loaded_->length) return "the prompt has nothing after them";
    if (common == static_cast<int64_t>(prompt.size()))
      return fmt::format("the prompt ends after {} tokens", common);
    return fmt::format("the prompt differs from token {} on", common);
  };
  fmt::print(stderr, "{}: reused {} of its {} tokens: {}{}\n", options_.file, cached,
             loaded_->length, why(),
             cached < std::min<int64_t>(common, static_cast<int64_t>(prompt.size()) - 1)
                 ? ", and what its first tokens see is no longer held"
                 : "");
}

Status PromptCache::save(engine::Engine& engine, std::span<const int32_t> tokens) const {
  if (!used() || options_.read_only || tokens.empty()) return {};
  if (continues()) {
    fmt::print(stderr,
               "{}: not written: it holds no token ids, so that the state after the reply cannot "
               "be told\n",
               options_.file);
    return {};
  }
  const InterruptScope scope;  // the first Ctrl-C does not end this
  const Status saved = engine.save_cache(tokens, options_.file);
  if (saved.ok() || saved.error().kind != ErrorKind::runtime) return saved;
  return make_error(
      ErrorKind::runtime,
      "{}; the reply is whole, but the cache of it is not saved and the file is as it "
      "was",
      saved.error().message);
}

Result<prompt::Prompt> build_continuation(const text::Tokenizer& tokenizer,
                                          const text::ChatTemplate* chat_template,
                                          const std::string& text) {
  prompt::Prompt prompt{.tokens = {}, .text = text};
  if (chat_template != nullptr) {
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    messages.push_back({{"role", "user"}, {"content", text}});
    prompt = RK_TRY(prompt::build_chat_prompt(tokenizer, *chat_template, messages));
    const size_t at = prompt.text.find(text);
    if (at != std::string::npos) {
      prompt.text.erase(0, at);
      std::erase_if(prompt.plain, [at](size_t place) { return place < at; });
      for (size_t& place : prompt.plain) place -= at;
    }
  }
  prompt.tokens = tokenizer.encode(
      prompt.text, {.add_special = false, .parse_special = true, .plain = prompt.plain});
  if (prompt.tokens.empty()) return make_error(ErrorKind::usage, "the prompt is empty");
  return prompt;
}

}  // namespace ringkeep::cli
