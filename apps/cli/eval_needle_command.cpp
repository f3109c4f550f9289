// `eval needle`: facts planted inside and beyond the window, asked for under each cache.
#include "base/log.h"
#include "cli/eval_options.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "eval/filler.h"
#include "eval/fingerprint.h"
#include "eval/needle_json.h"
#include "eval/report.h"

namespace ringkeep::cli {
namespace {

struct Options : EvalOptions {
  std::vector<int64_t> depths;
  int facts = 8;
  uint64_t seed = 1;
};

Result<int> eval_needle_command(const Options& options) {
  init_log(options.model.verbosity);
  CacheFlags cache;
  checkpoint::Checkpoint checkpoint = RK_TRY(open_for_eval(options, cache));
  const EvalText text = RK_TRY(read_text(options, checkpoint));
  const std::vector<int32_t> filler =
      options.text.empty()
          ? text.tokenizer->encode(eval::filler_text(static_cast<size_t>(cache.ctx) * 8),
                                   {.add_special = false, .parse_special = false})
          : text.tokens;
  const auto depths =
      options.depths.empty() ? eval::default_depths(checkpoint.config, cache.ctx) : options.depths;
  const eval::NeedleSpec spec = RK_TRY(eval::make_haystacks(
      *text.tokenizer, filler, cache.ctx, depths, options.facts, options.seed, text.bos));

  EvalSession session = RK_TRY(start_eval(std::move(checkpoint), options, cache, "", false));
  const nlohmann::json fingerprint = {{"measurement", "needle 1"},
                                      {"model", session.model_hash},
                                      {"text", eval::hash_text(std::as_bytes(std::span(filler)))},
                                      {"ctx", spec.ctx},
                                      {"depths", spec.depths},
                                      {"seed", options.seed},
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
                                   if (!progress) progress.emplace("eval needle", total);
                                   progress->update(done);
                                 }};
  auto result = eval::run_needle(*session.session.engine, spec, session.reference, session.cases,
                                 work, hooks);
  progress.reset();
  if (!result.ok()) {
    close_work(options, work, false);
    return std::move(result).error();
  }
  if (!options.report.empty())
    RK_TRY(write_report(options.report, eval::html_report(session.subject, nullptr, &*result)));
  if (options.model.json)
    print_json(eval::needle_json(*result, session.subject));
  else
    fmt::print("{}", eval::needle_table(*result));
  close_work(options, work, true);
  return 0;
}

}  // namespace

Command add_eval_needle(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("needle", "facts planted at depths of a long text, and asked for");
  auto options = std::make_shared<Options>();
  add_eval_options(*command, *options);
  const char* group = "Measurement";
  command->add_option("--text", options->text, "the text to hide facts in (default: built in)")
      ->type_name("FILE")
      ->group(group);
  add_list(*command, "--depths", options->depths,
           "tokens from a fact to the question (default: near, on both sides of the window, and "
           "far)",
           whole_number(0, kMostTokens))
      ->type_name("N,...")
      ->group(group);
  add_integer(*command, "--facts", options->facts, "facts at each depth, each in its own text", 1,
              10000)
      ->group(group);
  command->add_option("--seed", options->seed, "chooses the facts and the stretches of text")
      ->transform(seed_number())
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  return {command, [options] { return eval_needle_command(*options); }};
}

}  // namespace ringkeep::cli
