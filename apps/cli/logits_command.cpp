// `logits`: the logits of given tokens as a .npy matrix, for outside oracles.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/npy.h"
#include "cli/options.h"
#include "text/tokenizer.h"

namespace ringkeep::cli {
namespace {

constexpr size_t kTextLimit = size_t{1} << 28;  // bytes

struct Options {
  ModelOptions model;
  CacheFlags cache;
  RuntimeOptions runtime;
  std::optional<std::string> tokens, tokens_file, text, text_file;  // exactly one is given
  std::string positions = ":";
  std::string output;
};

Result<std::vector<int32_t>> input_tokens(const Options& options, const engine::Engine& engine) {
  const int64_t vocab = engine.config().vocab_size;
  if (options.tokens) return parse_token_ids(*options.tokens, vocab, "--tokens");
  if (options.tokens_file)
    return parse_token_ids(RK_TRY(read_text_input(*options.tokens_file, kTextLimit)), vocab,
                           "--tokens-file " + *options.tokens_file);
  const std::string text =
      options.text ? *options.text : RK_TRY(read_text_input(*options.text_file, kTextLimit));
  if (engine.tokenizer() == nullptr)
    return input_error("{}: the checkpoint has no tokenizer: give --tokens", options.model.model);
  return engine.tokenizer()->encode(text);
}

Result<int> logits_command(const Options& options) {
  init_log(options.model.verbosity);
  checkpoint::Checkpoint checkpoint = RK_TRY(checkpoint::open(options.model.model));
  Session session = RK_TRY(start(std::move(checkpoint), options.cache, options.runtime));
  engine::Engine& engine = *session.engine;
  const std::vector<int32_t> tokens = RK_TRY(input_tokens(options, engine));
  if (tokens.empty()) return make_error(ErrorKind::usage, "there are no tokens");
  const auto [begin, end] =
      RK_TRY(parse_range(options.positions, static_cast<int64_t>(tokens.size())));

  NpyWriter writer =
      RK_TRY(NpyWriter::open(options.output, end - begin, engine.config().vocab_size));
  const InterruptScope scope;
  Progress progress("logits", static_cast<double>(end));
  Status written;
  const auto write = [&](int64_t position, std::span<const float> row) {
    const auto bad = std::ranges::find_if(row, [](float x) { return !std::isfinite(x); });
    if (bad != row.end() && written.ok())
      written = make_error(ErrorKind::runtime, "the logit of token {} at position {} is {}",
                           bad - row.begin(), position, *bad);
    if (written.ok()) written = writer.write_row(row);
    progress.update(static_cast<double>(position + 1));
  };
  const auto stop = [&] { return scope.interrupted() || !written.ok(); };
  RK_TRY(engine.logits(tokens, options.cache.chunk, begin, end, write, stop));
  if (scope.interrupted()) return make_error(ErrorKind::interrupted, "interrupted");
  RK_TRY(std::move(written));
  RK_TRY(writer.finish());
  return 0;
}

}  // namespace

Command add_logits(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("logits", "write the logits of given tokens as a float32 .npy matrix");
  auto options = std::make_shared<Options>();
  add_model_options(*command, options->model);
  CLI::Option_group* input = command->add_option_group("Input");
  input->add_option("--tokens", options->tokens, "token ids, e.g. 2,10,11");
  input->add_option("--tokens-file", options->tokens_file, "a file of token ids");
  input->add_option("--text", options->text, "a text (special tokens are added)");
  input->add_option("--text-file", options->text_file, "a file of text");
  input->require_option(1);
  command->add_option("--positions", options->positions, "rows to write, first:end")
      ->type_name("A:B")
      ->capture_default_str()
      ->group("Output");
  command->add_option("-o,--output", options->output, "the .npy file; -: standard output")
      ->type_name("FILE")
      ->required()
      ->group("Output");
  add_cache_options(*command, options->cache);
  add_context_option(*command, options->cache);
  add_runtime_options(*command, options->runtime);
  return {command, [options] { return logits_command(*options); }};
}

}  // namespace ringkeep::cli
