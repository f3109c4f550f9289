// `eval kv`: agreement of each cache codec with the f16 cache, on a text.
#include <algorithm>

#include "base/log.h"
#include "cli/eval_options.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "eval/fingerprint.h"
#include "eval/report.h"

namespace ringkeep::cli {
namespace {

constexpr int64_t kDefaultChunks = 4;

struct Options : EvalOptions {
  int64_t chunks = 0;
  std::string only;
  bool ablate = false;
  std::vector<int64_t> lengths;
  int64_t free_run = 128;
  int prompts = 4;
};

// Without --ctx, a text shorter than the default context sets it.
Status fit_context(const Options& options, CacheFlags& cache, int64_t tokens) {
  if (!options.lengths.empty()) {
    const int64_t longest = *std::max_element(options.lengths.begin(), options.lengths.end());
    if (options.cache.ctx == 0)
      cache.ctx = longest;
    else if (longest > cache.ctx)
      return make_error(ErrorKind::usage, "--lengths: {} is more than --ctx {}", longest,
                        cache.ctx);
    for (const int64_t length : options.lengths)
      if (length < 2) return make_error(ErrorKind::usage, "--lengths: {} is too short", length);
  } else if (options.cache.ctx == 0) {
    cache.ctx = std::min(cache.ctx, tokens);
  }
  if (tokens < cache.ctx || cache.ctx < 16)
    return input_error("{}: {} tokens (BOS included), expected at least the {} of one chunk",
                       options.tokens.empty() ? options.text : options.tokens, tokens,
                       std::max<int64_t>(cache.ctx, 16));
  return {};
}

Result<int> eval_kv_command(const Options& options) {
  init_log(options.model.verbosity);
  CacheFlags cache;
  checkpoint::Checkpoint checkpoint = RK_TRY(open_for_eval(options, cache));
  const int64_t trained = checkpoint.config.trained_context;
  const EvalText text = RK_TRY(read_text(options, checkpoint));
  RK_TRY(fit_context(options, cache,
                     static_cast<int64_t>(text.tokens.size()) + (text.bos >= 0 ? 1 : 0)));
  if (trained > 0 && cache.ctx > trained)
    spdlog::warn("chunks of {} tokens: the model was trained on {}", cache.ctx, trained);

  eval::KvSpec spec{
      .ctx = cache.ctx,
      .chunks = eval::cut_chunks(text.tokens, cache.ctx,
                                 options.chunks > 0 ? options.chunks : kDefaultChunks, text.bos),
      .lengths = options.lengths,
      .free_run = options.free_run,
      .prompts = options.prompts};
  std::sort(spec.lengths.begin(), spec.lengths.end());
  if (options.chunks > static_cast<int64_t>(spec.chunks.size()))
    return input_error("{}: the text gives {} chunks of {} tokens, --chunks asks for {}",
                       options.tokens.empty() ? options.text : options.tokens, spec.chunks.size(),
                       cache.ctx, options.chunks);

  EvalSession session =
      RK_TRY(start_eval(std::move(checkpoint), options, cache, options.only, options.ablate));
  const nlohmann::json fingerprint = {
      {"measurement", "kv 1"},
      {"model", session.model_hash},
      {"text", eval::hash_text(std::as_bytes(std::span(text.tokens)))},
      {"ctx", spec.ctx},
      {"lengths", spec.lengths},
      {"free_run", spec.free_run},
      {"prompts", spec.prompts},
      {"exact", options.runtime.exact},
      {"weight_bits", options.runtime.weight_bits},
      {"weight_group", options.runtime.weight_group},
      {"cache", eval::describe(cache)}};
  eval::WorkFile work = RK_TRY(open_work(options, fingerprint));

  const InterruptScope scope;
  std::optional<Progress> progress;
  const eval::RunHooks hooks{.stop = [&] { return scope.interrupted(); },
                             .update =
                                 [&](double done, double total) {
                                   if (!progress) progress.emplace("eval kv", total);
                                   progress->update(done);
                                 }};
  auto result = eval::run_kv(*session.session.engine, spec, session.reference, session.cases,
                             session.ablation, !options.runtime.exact, work, hooks);
  progress.reset();
  if (!result.ok()) {
    close_work(options, work, false);
    return std::move(result).error();
  }
  if (!options.report.empty())
    RK_TRY(write_report(options.report, eval::html_report(session.subject, &*result, nullptr)));
  if (options.model.json)
    print_json(eval::kv_json(*result, session.subject));
  else
    fmt::print("{}", eval::kv_table(*result));
  close_work(options, work, true);
  return 0;
}

}  // namespace

Command add_eval_kv(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("kv", "divergence from the f16 cache, by codec, on a text");
  auto options = std::make_shared<Options>();
  add_eval_options(*command, *options);
  const char* group = "Measurement";
  CLI::Option_group* input = command->add_option_group("Text");
  input->add_option("--text", options->text, "the text to measure on")->type_name("FILE");
  input->add_option("--tokens-file", options->tokens, "the same as token ids (no BOS is added)")
      ->type_name("FILE");
  input->require_option(1);
  command
      ->add_option("--chunks", options->chunks,
                   "pieces of --ctx tokens (default: what the text gives, at most 4)")
      ->transform(whole_number(1, kMostTokens))
      ->type_name("N")
      ->group(group);
  command->add_option("--only", options->only, "quantize the layers of this kind alone")
      ->type_name("sliding|full")
      ->check(CLI::IsMember({"sliding", "full"}))
      ->group(group);
  command
      ->add_flag("--ablate", options->ablate,
                 "also measure each codec on K alone, V alone, sliding and full layers alone")
      ->group(group);
  add_list(*command, "--lengths", options->lengths,
           "also report the rows just before these lengths (sets --ctx)",
           whole_number(1, kMostTokens))
      ->type_name("N,...")
      ->group(group);
  add_integer(*command, "--free-run", options->free_run,
              "tokens of greedy continuations that are compared; 0: none, no decode speed", 0, 4096)
      ->group(group);
  add_integer(*command, "--prompts", options->prompts, "greedy continuations in each chunk", 1, 64)
      ->group(group);
  return {command, [options] { return eval_kv_command(*options); }};
}

}  // namespace ringkeep::cli
