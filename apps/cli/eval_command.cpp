// `eval`: measurements of what a cache codec costs, and what its two commands share.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/log.h"
#include "cli/eval_options.h"
#include "cli/machine.h"
#include "cli/numbers.h"
#include "eval/fingerprint.h"
#include "kernels/select/select.h"
#include "kv/plan.h"
#include "models/model.h"

namespace ringkeep::cli {
namespace {

constexpr size_t kTextLimit = size_t{1} << 30;
constexpr int64_t kDefaultContext = 4096;
constexpr int64_t kSmallestContext = 16;

std::string default_work_path(const EvalOptions& options, const nlohmann::json& fingerprint) {
  if (!options.report.empty()) return options.report + ".work";
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (cache != nullptr && *cache != '\0')
    folder = cache;
  else if (home != nullptr && *home != '\0')
    folder = std::filesystem::path(home) / ".cache";
  else
    return "";
  const std::string text = fingerprint.dump();
  return (folder / "ringkeep" / "eval" /
          (eval::hash_text(std::as_bytes(std::span(text))) + ".jsonl"))
      .string();
}

}  // namespace

void add_eval_options(CLI::App& app, EvalOptions& options) {
  add_model_options(app, options.model);
  add_json_option(app, options.model);
  app.add_option("--report", options.report, "also write a page with the results and charts")
      ->type_name("FILE.html")
      ->group("Output");
  app.add_option("--work", options.work,
                 "keep finished parts here, and continue from them (default: beside the report or "
                 "in the cache folder, removed at the end)")
      ->type_name("FILE")
      ->group("Output");
  CLI::Option* budget = add_cache_options(app, options.cache, false);
  add_list(app, "--codecs", options.codecs, "codecs of the cache (see run --kv-bits)")
      ->type_name("CODEC,...")
      ->excludes(budget)
      ->group("Measurement");
  add_context_option(app, options.cache);
  add_runtime_options(app, options.runtime);
}

Result<checkpoint::Checkpoint> open_for_eval(const EvalOptions& options, CacheFlags& cache) {
  auto checkpoint = RK_TRY(checkpoint::open(options.model.model));
  RK_TRY(models::check_family(checkpoint.config));
  cache = options.cache;
  if (cache.ctx == 0)
    cache.ctx = checkpoint.config.trained_context > 0
                    ? std::min(checkpoint.config.trained_context, kDefaultContext)
                    : kDefaultContext;
  if (cache.ctx < kSmallestContext)
    return make_error(ErrorKind::usage, "--ctx {}: expected at least {}", cache.ctx,
                      kSmallestContext);
  return checkpoint;
}

Result<EvalSession> start_eval(checkpoint::Checkpoint checkpoint, const EvalOptions& options,
                               CacheFlags cache, const std::string& only, bool ablate) {
  const kernels::Ops ops = kernels::cpu_backend();
  const ModelConfig& config = checkpoint.config;
  std::vector<std::string> codecs = options.codecs;
  if (cache.kv_budget > 0) {
    const auto plan = RK_TRY(kv::make_plan(config, cache, ops));
    if (!plan.runnable()) return kv::refusal_error(plan);
    report_plan(plan);
    codecs = {"f16", plan.budget_codec};
    cache.kv_budget = 0;
  }
  EvalSession out;
  if (!only.empty() && !eval::has_kind(config, only))
    return make_error(ErrorKind::usage, "--only {}: the model has no such layers", only);
  out.cases = RK_TRY(eval::make_cases(codecs, only, cache, options.runtime.exact, config, ops));
  if (ablate) out.ablation = RK_TRY(eval::make_ablation(out.cases, cache, config, ops));
  for (const eval::Case& c : out.cases)
    for (const std::string& warning : c.warnings) spdlog::warn("codec {}: {}", c.codec, warning);
  out.reference = eval::reference_case(cache, options.runtime.exact);
  const auto plan = RK_TRY(kv::make_plan(config, out.reference.flags, ops));
  if (!plan.runnable()) return kv::refusal_error(plan);
  out.reference.kv_bytes = static_cast<int64_t>(plan.kv_bytes);
  out.reference.k_bits = out.reference.v_bits = 16;
  out.model_hash = eval::hash_model(checkpoint);
  out.subject = {.model = options.model.model,
                 .text = options.tokens.empty() ? options.text : options.tokens,
                 .exact = options.runtime.exact,
                 .machine = fmt::format("{}, {} threads", cpu_name(), options.runtime.threads)};
  out.session = RK_TRY(start(std::move(checkpoint), out.reference.flags, options.runtime));
  for (const engine::AdapterInfo& adapter : out.session.engine->adapters()) {
    out.model_hash += " " + adapter.sha256;
    out.subject.model += " with " + options.runtime.adapters.front();
  }
  return out;
}

Result<EvalText> read_text(const EvalOptions& options, const checkpoint::Checkpoint& checkpoint) {
  EvalText out;
  if (!options.tokens.empty()) {
    out.tokens =
        RK_TRY(parse_token_ids(RK_TRY(read_text_file(options.tokens, kTextLimit)),
                               checkpoint.config.vocab_size, "--tokens-file " + options.tokens));
    return out;
  }
  const TokenizerData& data = checkpoint.tokenizer;
  if (data.kind == TokenizerData::Kind::none)
    return input_error("{}: the checkpoint has no tokenizer ({})", checkpoint.path, data.note);
  out.tokenizer = RK_TRY(text::Tokenizer::create(data));
  out.bos = data.add_bos ? data.bos : -1;
  if (!options.text.empty())
    out.tokens = out.tokenizer->encode(RK_TRY(read_text_file(options.text, kTextLimit)),
                                       {.add_special = false, .parse_special = false});
  return out;
}

Result<eval::WorkFile> open_work(const EvalOptions& options, const nlohmann::json& fingerprint) {
  const std::string path =
      options.work.empty() ? default_work_path(options, fingerprint) : options.work;
  auto work = eval::WorkFile::open(path, fingerprint);
  if (!work.ok() && options.work.empty() && work.error().kind == ErrorKind::runtime) {
    spdlog::warn("{}; an interrupted run cannot be continued", work.error().message);
    return eval::WorkFile::open("", fingerprint);
  }
  if (!work.ok()) return work;
  if (work->restarted)
    spdlog::warn("{}: belongs to another model, text or flags; starting anew", path);
  else if (work->size() > 0)
    fmt::print(stderr, "continuing from {} finished parts in {}\n", work->size(), path);
  return work;
}

void close_work(const EvalOptions& options, eval::WorkFile& work, bool finished) {
  if (finished && options.work.empty()) return work.remove();
  if (!finished && !work.path().empty())
    fmt::print(stderr, "{} finished parts are kept in {}; the same command continues\n",
               work.size(), work.path());
}

Status write_report(const std::string& path, const std::string& html) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  bool good = file != nullptr;
  if (good) {
    good = std::fwrite(html.data(), 1, html.size(), file) == html.size();
    good = (std::fclose(file) == 0) && good;
  }
  if (!good)
    return make_error(ErrorKind::runtime, "{}: cannot be written: {}", path, std::strerror(errno));
  return {};
}

Command add_eval(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("eval", "measure what cache codecs cost on your model and text");
  command->require_subcommand(1);
  const std::vector<Command> parts = {add_eval_kv(*command), add_eval_needle(*command)};
  return {command, [parts]() -> Result<int> {
            for (const Command& part : parts)
              if (part.app->parsed()) return part.run();
            return exit_code(ErrorKind::usage);
          }};
}

}  // namespace ringkeep::cli
