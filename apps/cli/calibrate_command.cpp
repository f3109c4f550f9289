// `calibrate`: measures the channels of Q and K over a text, and writes the factors of the K
// balance that they ask for. Its gain is told by the divergence of a 4-bit cache on text that was
// not used.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/log.h"
#include "base/sha256.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/numbers.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/text_windows.h"
#include "engine/lane.h"
#include "eval/divergence.h"
#include "weights/calibration.h"

namespace ringkeep::cli {
namespace {

constexpr size_t kTextLimit = size_t{1} << 30;
constexpr size_t kReferenceBytes = size_t{256} << 20;  // logits of the f16 cache that are kept
constexpr const char* kCheckCodec = "4";
constexpr int64_t kFewestTokens = 64;  // factors of fewer are their noise

struct Options {
  ModelOptions model;
  RuntimeOptions runtime;
  std::string text;         // file
  std::string tokens_file;  // in its place
  std::string output;
  int64_t tokens = 8192;
  int64_t ctx = 0;
  int64_t chunk = 512;
  int64_t held_out = 1024;
  bool force = false;
};

// From the text, or from ids that are taken as they are.
Result<Windows> make_windows(const Options& options, const std::string& text,
                             const engine::Engine& engine) {
  if (options.tokens_file.empty()) return text_windows(text, engine);
  return token_windows(RK_TRY(parse_token_ids(text, engine.config().vocab_size,
                                              "--tokens-file " + options.tokens_file)),
                       engine);
}

// Divergence of the cache under `flags` from the rows of reference logits: mean KL(f16 || cache) in
// nats of the last rows of `window`. An empty reference is filled instead. With float32
// activations: how a prompt's are rounded is no property of the cache, and differs from one to the
// next.
Result<double> divergence(engine::Engine& engine, const CacheFlags& flags,
                          const std::vector<int32_t>& window, int64_t rows,
                          std::vector<float>& reference) {
  const auto lane = RK_TRY(engine::Lane::create(engine, flags, /*exact=*/true));
  const kv::SequenceId sequence = RK_TRY(lane->open());
  const auto vocab = static_cast<size_t>(engine.config().vocab_size);
  const bool fill = reference.empty();
  double total = 0;
  size_t at = 0;
  RK_TRY(lane->extend(sequence, window, rows, [&](int64_t, int64_t count, const float* logits) {
    for (int64_t r = 0; r < count; ++r, logits += vocab) {
      const std::span<const float> row(logits, vocab);
      if (fill) {
        reference.insert(reference.end(), row.begin(), row.end());
        continue;
      }
      const std::span<const float> truth(reference.data() + at, vocab);
      at += vocab;
      total += eval::kl_divergence(truth, eval::softmax(truth), row, eval::softmax(row));
    }
  }));
  return total / static_cast<double>(rows);
}

struct Gain {
  int64_t rows = 0;
  double before = 0;  // with the factors that the weights alone give
  double after = 0;   // with the measured ones
};

// On the next tokens of the text, as far as it has them.
Result<std::optional<Gain>> measure_gain(engine::Engine& engine, const Options& options,
                                         CacheFlags flags, const std::vector<int32_t>& window) {
  const auto vocab_bytes = static_cast<size_t>(engine.config().vocab_size) * sizeof(float);
  Gain gain;
  gain.rows = std::min(static_cast<int64_t>(window.size()) / 2,
                       static_cast<int64_t>(kReferenceBytes / vocab_bytes));
  if (gain.rows < 16) return std::optional<Gain>();
  std::vector<float> reference;
  reference.reserve(static_cast<size_t>(gain.rows) * vocab_bytes / sizeof(float));
  RK_TRY(divergence(engine, flags, window, gain.rows, reference));
  flags.kv_bits = kCheckCodec;
  gain.before = RK_TRY(divergence(engine, flags, window, gain.rows, reference));
  flags.kv_calibration = options.output;
  gain.after = RK_TRY(divergence(engine, flags, window, gain.rows, reference));
  return std::optional<Gain>(gain);
}

struct Noise {
  double plain = 0, weights = 0;  // see KeyStatistics::score_noise
};

void print_report(const Options& options, const weights::Calibration& calibration,
                  const Noise& noise, const std::optional<Gain>& gain) {
  if (options.model.json) {
    print_json(Json{{"file", options.output},
                    {"tokens", calibration.tokens},
                    {"text_sha256", calibration.text_sha256},
                    {"score_noise", {{"plain", noise.plain}, {"weights", noise.weights}}},
                    {"gain", gain ? Json{{"codec", kCheckCodec},
                                         {"rows", gain->rows},
                                         {"kld_before", gain->before},
                                         {"kld_after", gain->after}}
                                  : Json(nullptr)}});
    return;
  }
  fmt::print("{}: factors from {} tokens\n", options.output, calibration.tokens);
  fmt::print(
      "noise of the scores over that with these factors: {:.2f} without a balance, {:.2f} "
      "with the one from the weights\n",
      noise.plain, noise.weights);
  if (gain)
    fmt::print(
        "KLD of --kv-bits {} from f16 on {} later rows: {:.5f} before, {:.5f} with "
        "--kv-calibration\n",
        kCheckCodec, gain->rows, gain->before, gain->after);
  else if (options.held_out > 0)
    fmt::print("the text has no further {} tokens to measure the gain on\n", options.held_out);
}

std::string default_output(const std::string& checkpoint_path) {
  std::filesystem::path path(checkpoint_path);
  if (!path.has_filename()) path = path.parent_path();
  const std::string name =
      path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
  return name + ".kv-calibration.safetensors";
}

Result<int> calibrate_command(const Options& asked) {
  init_log(asked.model.verbosity);
  Options options = asked;
  const std::string text =
      RK_TRY(read_text_file(options.text.empty() ? options.tokens_file : options.text, kTextLimit));
  checkpoint::Checkpoint checkpoint = RK_TRY(checkpoint::open(options.model.model));
  if (!options.text.empty() && checkpoint.tokenizer.kind == TokenizerData::Kind::none)
    return input_error("{}: the checkpoint has no tokenizer ({}): give --tokens-file",
                       checkpoint.path, checkpoint.tokenizer.note);
  if (options.output.empty()) options.output = default_output(checkpoint.path);
  std::error_code ignored;
  if (!options.force && std::filesystem::exists(options.output, ignored))
    return make_error(ErrorKind::usage, "{}: is there already; --force replaces it",
                      options.output);

  CacheFlags flags;  // f16: queries and keys are measured as the model makes them
  flags.ctx = options.ctx;
  flags.chunk = options.chunk;
  Session session = RK_TRY(start(std::move(checkpoint), flags, options.runtime));
  engine::Engine& engine = *session.engine;
  const int64_t ctx = engine.plan().ctx;
  Windows windows = RK_TRY(make_windows(options, text, engine));
  if (const auto found = static_cast<int64_t>(windows.tokens.size()); found < kFewestTokens)
    return input_error("{}: {} tokens, expected at least {}",
                       options.text.empty() ? options.tokens_file : options.text, found,
                       kFewestTokens);

  const InterruptScope scope;
  models::KeyStatistics statistics;
  weights::Calibration calibration;
  {
    Progress progress("calibrate", static_cast<double>(options.tokens));
    engine.observe_keys(&statistics);
    while (calibration.tokens < options.tokens && !scope.interrupted()) {
      const auto window = windows.next(std::min(
          ctx, options.tokens - calibration.tokens + static_cast<int64_t>(windows.head.size())));
      if (window.empty()) break;
      const auto size = static_cast<int64_t>(window.size());
      RK_TRY(engine.logits(window, options.chunk, size - 1, size, [](auto, auto) {}));
      calibration.tokens += size - static_cast<int64_t>(windows.head.size());
      progress.update(static_cast<double>(calibration.tokens));
    }
    engine.observe_keys(nullptr);
  }
  if (scope.interrupted()) return make_error(ErrorKind::interrupted, "interrupted");

  const ModelConfig& config = engine.config();
  calibration.family = config.family;
  calibration.norms_sha256 = RK_TRY(weights::norms_fingerprint(engine.checkpoint()));
  calibration.text_sha256 = sha256_hex(text);
  calibration.balance = statistics.balance(config);
  for (const LayerSpec& layer : config.layers) calibration.kv_heads.push_back(layer.kv_heads);
  RK_TRY(write_file(options.output, weights::encode_calibration(calibration)));

  const double best = statistics.score_noise(calibration.balance);
  const Noise noise{
      .plain = statistics.score_noise(weights::KeyBalance(config.layers.size())) / best,
      .weights = statistics.score_noise(engine.weight_balance()) / best};
  std::optional<Gain> gain;
  if (options.held_out > 0)
    gain =
        RK_TRY(measure_gain(engine, options, flags, windows.next(std::min(ctx, options.held_out))));
  print_report(options, calibration, noise, gain);
  return 0;
}

}  // namespace

Command add_calibrate(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("calibrate", "measure the K balance over a text, for --kv-calibration");
  auto options = std::make_shared<Options>();
  add_model_options(*command, options->model);
  add_json_option(*command, options->model);
  const char* group = "Measurement";
  CLI::Option_group* input = command->add_option_group("Input");
  input->add_option("--text", options->text, "a file of text of the kind that will be run")
      ->type_name("FILE");
  input->add_option("--tokens-file", options->tokens_file, "a file of token ids instead")
      ->type_name("FILE");
  input->require_option(1);
  add_integer(*command, "--tokens", options->tokens, "tokens of the text to measure", kFewestTokens,
              kMostTokens)
      ->group(group);
  add_integer(*command, "-c,--ctx", options->ctx,
              "measured in windows of this length; 0: the trained context, at most 4096", 0,
              kMostTokens)
      ->group(group);
  add_integer(*command, "--held-out", options->held_out,
              "further tokens to measure the gain of a 4-bit cache on; 0: none", 0, kMostTokens)
      ->group(group);
  add_integer(*command, "--chunk", options->chunk, "most tokens of a prefill step", 1, kMostTokens)
      ->group(group);
  command
      ->add_option("-o,--output", options->output,
                   "the file to write (default: MODEL.kv-calibration.safetensors)")
      ->type_name("FILE")
      ->group("Output");
  command->add_flag("--force", options->force, "replace a file that is there")->group("Output");
  add_runtime_options(*command, options->runtime);
  return {command, [options] { return calibrate_command(*options); }};
}

}  // namespace ringkeep::cli
