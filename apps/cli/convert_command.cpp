// `convert`: a Hugging Face folder to packed safetensors in mlx-lm's format.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/log.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "cli/convert_calibration.h"
#include "cli/convert_report.h"
#include "cli/interrupt.h"
#include "cli/machine.h"
#include "cli/numbers.h"
#include "cli/options.h"
#include "convert/convert.h"
#include "kv/budget.h"

namespace ringkeep::cli {
namespace {

constexpr size_t kConfigLimit = size_t{16} << 20;
constexpr size_t kTextLimit = size_t{1} << 30;

struct Options {
  ModelOptions model;
  std::string destination;
  int bits = 4;
  int group = 64;
  std::string dtype;
  std::string rounding = "search";
  std::vector<std::string> overrides;
  std::string calibration;      // file of text
  std::string calibration_ids;  // of token ids, in its place
  int64_t calibration_tokens = 8192;
  int64_t calibration_ctx = 0;
  std::string shard_size = "5G";
  bool force = false;
  bool restart = false;
  bool dry_run = false;
  int threads = 1;
};

Result<convert::Options> plan_options(const Options& options) {
  convert::Options plan;
  plan.asked = {options.bits, options.group};
  if (!options.dtype.empty()) plan.dtype = convert::dtype_of(options.dtype);
  plan.method =
      options.rounding == "search" ? quant::AffineMethod::search : quant::AffineMethod::min_max;
  plan.overrides = options.overrides;
  plan.shard_bytes = RK_TRY(kv::parse_bytes(options.shard_size));
  return plan;
}

// The text to measure on, or none.
Result<std::optional<CalibrationText>> calibration_text(const Options& options) {
  const bool ids = !options.calibration_ids.empty();
  const std::string& path = ids ? options.calibration_ids : options.calibration;
  if (path.empty()) return std::optional<CalibrationText>();
  if (options.rounding != "search")
    return make_error(ErrorKind::usage,
                      "--calibration: weighs the error of --rounding search, not of {}",
                      options.rounding);
  return std::optional(CalibrationText{RK_TRY(read_text_file(path, kTextLimit)), ids,
                                       options.calibration_tokens, options.calibration_ctx});
}

size_t source_bytes(const convert::Plan& plan) {
  size_t bytes = 0;
  for (const auto& planned : plan.modules)
    for (const auto& part : planned.module.parts) bytes += part.bytes;
  return bytes;
}

Result<int> convert_command(const Options& options) {
  init_log(options.model.verbosity);
  std::string destination = options.destination;
  while (destination.size() > 1 && destination.back() == '/') destination.pop_back();
  const convert::Options asked = RK_TRY(plan_options(options));
  const std::optional<CalibrationText> text = RK_TRY(calibration_text(options));
  const checkpoint::Checkpoint checkpoint = RK_TRY(checkpoint::open(options.model.model));
  std::string config;
  if (checkpoint.format == checkpoint::Format::safetensors)
    config = RK_TRY(read_text_file(checkpoint.path + "/config.json", kConfigLimit));
  const convert::Plan plan = RK_TRY(convert::make_plan(checkpoint, config, asked));
  for (const std::string& name : plan.uneven)
    spdlog::warn("{}: kept, since groups of {} do not divide its columns", name, options.group);
  const ConvertReport report{options.model.model, destination, plan,
                             text ? calibration_label(*text) : std::string()};
  if (options.dry_run) {
    print_convert_report(report, std::nullopt, options.model.json);
    return 0;
  }

  RK_TRY(convert::check_destination(checkpoint.path, destination, options.force));
  ThreadPool pool(options.threads);
  convert::Request request{
      .destination = destination, .force = options.force, .restart = options.restart};
  const InterruptScope scope;
  request.stop = [&] { return scope.interrupted(); };
  if (text) {
    request.measured_on = calibration_label(*text);
    request.measure = [&] {
      return measure_importance(options.model.model, *text, options.threads, request.stop,
                                options.model.json);
    };
  }
  std::optional<Progress> progress;
  if (!options.model.json) {
    progress.emplace("convert", static_cast<double>(source_bytes(plan)));
    request.progress = [&](double done) { progress->update(done); };
  }
  const auto outcome = convert::run(plan, checkpoint, config, request, pool);
  progress.reset();
  if (!outcome.ok() && outcome.error().kind == ErrorKind::interrupted)
    return make_error(ErrorKind::interrupted,
                      "interrupted; the same command goes on with what is in {}.converting",
                      destination);
  print_convert_report(report, RK_TRY(outcome), options.model.json);
  return 0;
}

void add_module_options(CLI::App& app, Options& options) {
  const char* group = "Modules";
  add_integer(app, "-b,--bits", options.bits, "of a weight: 2 3 4 5 6 8", 2, 8)
      ->check(CLI::IsMember({2, 3, 4, 5, 6, 8}))
      ->group(group);
  add_integer(app, "-g,--group", options.group, "weights under one scale and bias: 32 64 128", 32,
              128)
      ->check(CLI::IsMember({32, 64, 128}))
      ->group(group);
  app.add_option("--override", options.overrides,
                 "bits and group of the modules whose name has a match; the last rule that matches "
                 "counts (repeatable)")
      ->type_name("REGEX=BITS[:GROUP]|REGEX=keep")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--dtype", options.dtype,
                 "of scales, biases and what is kept: float16, bfloat16, float32 (default: what "
                 "config.json says)")
      ->check(CLI::IsMember({"float16", "bfloat16", "float32", "f16", "bf16", "f32"}))
      ->type_name("TYPE")
      ->group(group);
  app.add_option("--rounding", options.rounding,
                 "search: scales of least squared error; min-max: as mlx.core.quantize")
      ->check(CLI::IsMember({"search", "min-max"}))
      ->type_name("NAME")
      ->capture_default_str()
      ->group(group);
}

void add_calibration_options(CLI::App& app, Options& options) {
  const char* group = "Calibration";
  CLI::Option* text =
      app.add_option("--calibration", options.calibration,
                     "a text to run the source on: the error of each weight is weighed by the mean "
                     "square of its input")
          ->type_name("FILE")
          ->group(group);
  app.add_option("--calibration-ids", options.calibration_ids, "a file of token ids instead")
      ->type_name("FILE")
      ->excludes(text)
      ->group(group);
  add_integer(app, "--calibration-tokens", options.calibration_tokens, "tokens to run", 1,
              kMostTokens)
      ->group(group);
  add_integer(app, "--calibration-ctx", options.calibration_ctx,
              "in windows of this length; 0: the trained context, at most 4096", 0, kMostTokens)
      ->group(group);
}

}  // namespace

Command add_convert(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "convert", "quantize a Hugging Face folder to packed safetensors, for mlx-lm and ringkeep");
  auto options = std::make_shared<Options>();
  add_model_options(*command, options->model)
      ->description("folder with config.json and safetensors that are not quantized, or org/name");
  command->footer(
      std::string("org/name is one in the local Hugging Face cache. GGUF files, and MLX folders "
                  "that are quantized, are refused.\n") +
      kExitCodes);
  add_json_option(*command, options->model);
  command->add_option("DST", options->destination, "the folder to make")->required();
  add_module_options(*command, *options);
  add_calibration_options(*command, *options);
  const char* files = "Files";
  command
      ->add_option("--shard-size", options->shard_size, "most bytes of tensors in a file, e.g. 2G")
      ->transform(byte_count())
      ->type_name("BYTES")
      ->default_str("5G")
      ->group(files);
  command->add_flag("--force", options->force, "replace a model that is at DST")->group(files);
  command
      ->add_flag("--restart", options->restart, "begin again, without what an unfinished run made")
      ->group(files);
  command
      ->add_flag("--dry-run", options->dry_run, "print the sizes, read no weights, write nothing")
      ->group(files);
  options->threads = default_threads();
  add_integer(*command, "-t,--threads", options->threads, "threads (default: the physical cores)",
              1, 1024)
      ->group("Compute");
  return {command, [options] { return convert_command(*options); }};
}

}  // namespace ringkeep::cli
