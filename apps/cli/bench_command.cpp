// `bench`: prefill and decode speed by codec and depth, beside the floor that the memory bandwidth
// of the machine sets. Codecs take turns within each repetition, so that drift hits all alike.
#include <algorithm>
#include <chrono>
#include <random>

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "cli/bandwidth.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/machine.h"
#include "cli/numbers.h"
#include "cli/options.h"
#include "cli/output.h"

namespace ringkeep::cli {
namespace {

struct Options {
  ModelOptions model;
  CacheFlags cache;
  RuntimeOptions runtime;
  int64_t prompt = 512;
  int64_t decode = 32;
  std::vector<int64_t> depths = {0, 4096};
  std::vector<std::string> codecs = {"f16", "8", "4"};
  int repetitions = 5;
};

// One codec at one depth.
struct Row {
  size_t codec = 0;
  int64_t depth = 0;
  std::vector<double> prefill_tok_s;  // by repetition
  std::vector<double> decode_tok_s;
  double decode_bytes = 0;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Rows of a layer that the last of `length` tokens sees.
int64_t rows_in_sight(const kv::LayerPlan& layer, int64_t length) {
  if (layer.chunk_size > 0) return (length - 1) % layer.chunk_size + 1;
  return layer.window > 0 ? std::min(length, layer.window + layer.keep) : length;
}

// Bytes that a decode step must read when the sequence has `length` tokens.
double decode_bytes(const engine::Engine& engine, int64_t length) {
  auto bytes = static_cast<double>(engine.decode_weight_bytes());
  const auto& layers = engine.plan().layers;
  for (const kv::LayerPlan& layer : layers) {
    // A shared layer reads its donor's rows.
    const auto& stored = layer.donor >= 0 ? layers[static_cast<size_t>(layer.donor)] : layer;
    const int64_t rows = rows_in_sight(stored, length);
    int64_t hot = 0;  // of them, in the hot tier: the page of the last token and the one before
    if (stored.hot_group >= 0) {
      hot = std::min(rows, (length - 1) % kernels::kPageTokens + 1 + kernels::kPageTokens);
      const auto& tier = engine.plan().groups[static_cast<size_t>(stored.hot_group)];
      bytes +=
          static_cast<double>(hot) * static_cast<double>(tier.page_bytes) / kernels::kPageTokens;
    }
    bytes += static_cast<double>(rows - hot) * static_cast<double>(stored.bytes_per_token);
  }
  return bytes;
}

double timed_step(engine::Engine& engine, Status& status) {
  const auto start = std::chrono::steady_clock::now();
  for (engine::Event& event : engine.step())
    if (event.error) status = std::move(*event.error);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Random but fixed token ids.
std::vector<int32_t> random_tokens(int64_t count, int64_t vocab) {
  std::mt19937_64 random(1);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens)
    token = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab));
  return tokens;
}

engine::Request request_of(const engine::Engine& engine, int64_t prompt, int64_t max_tokens) {
  engine::Request request;
  request.tokens = random_tokens(prompt, engine.config().vocab_size);
  request.sampling.temperature = 0.0f;
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

// Tokens a second of prefilling `count` tokens after `depth` (a multiple of the chunk).
Result<double> prefill_speed(engine::Engine& engine, int64_t depth, int64_t count) {
  RK_TRY(engine.submit(request_of(engine, depth + count, 1)));
  Status status;
  double seconds = 0;
  for (int64_t done = 0; done < depth + count; done += engine.plan().chunk) {
    const double step = timed_step(engine, status);
    RK_TRY(status);
    if (done >= depth) seconds += step;
  }
  return static_cast<double>(count) / seconds;
}

// Tokens a second of decoding `count` tokens after `depth` (at least one token is in the cache).
Result<double> decode_speed(engine::Engine& engine, int64_t depth, int64_t count) {
  const int64_t prompt = std::max<int64_t>(depth, 1);
  RK_TRY(engine.submit(request_of(engine, prompt, count + 1)));
  Status status;
  for (int64_t done = 0; done < prompt; done += engine.plan().chunk) {
    timed_step(engine, status);
    RK_TRY(status);
  }
  double seconds = 0;
  for (int64_t i = 0; i < count; ++i) {
    seconds += timed_step(engine, status);
    RK_TRY(status);
  }
  RK_CHECK(engine.idle(), "the generation should have ended after {} tokens", count + 1);
  return static_cast<double>(count) / seconds;
}

Status check_flags(const Options& options) {
  for (const int64_t depth : options.depths)
    if (depth % options.cache.chunk != 0)
      return make_error(ErrorKind::usage,
                        "--depths: {} is not a multiple of --chunk ({}), so no prefill step would "
                        "begin there",
                        depth, options.cache.chunk);
  return {};
}

// The cache of one codec (the one that a budget chose: of that budget), for every depth.
CacheFlags flags_of(const Options& options, const std::string& codec) {
  CacheFlags flags = options.cache;
  if (flags.kv_budget == 0) flags.kv_bits = codec;
  flags.ctx = *std::max_element(options.depths.begin(), options.depths.end()) +
              std::max(options.prompt, options.decode + 1) + 1;
  return flags;
}

void print_rows_json(const std::vector<Row>& rows, const Options& options,
                     const std::string& machine, double bandwidth) {
  Json out = Json::array();
  for (const Row& row : rows)
    out.push_back(Json{{"codec", options.codecs[row.codec]},
                       {"depth", row.depth},
                       {"prefill_tok_s", median(row.prefill_tok_s)},
                       {"decode_tok_s", median(row.decode_tok_s)},
                       {"decode_bytes", static_cast<int64_t>(row.decode_bytes)},
                       {"decode_floor_tok_s", bandwidth * 1e9 / row.decode_bytes}});
  print_json(Json{{"machine", machine}, {"bandwidth_gb_s", bandwidth}, {"rows", std::move(out)}});
}

void print_rows_text(const std::vector<Row>& rows, const Options& options,
                     const std::string& machine, double bandwidth) {
  fmt::print("{}\nstreaming read bandwidth {:.1f} GB/s\n\n", machine, bandwidth);
  size_t width = 10;
  for (const std::string& codec : options.codecs) width = std::max(width, codec.size());
  fmt::print("{:<{}} {:>7} {:>14} {:>13} {:>12} {:>8} {:>12} {:>8}\n", "codec", width, "depth",
             "prefill tok/s", "decode tok/s", "MB a step", "GB/s", "floor tok/s", "of floor");
  for (const Row& row : rows) {
    const double decode = median(row.decode_tok_s);
    const double floor = bandwidth * 1e9 / row.decode_bytes;
    fmt::print("{:<{}} {:>7} {:>14.1f} {:>13.1f} {:>12.1f} {:>8.1f} {:>12.1f} {:>7.0f}%\n",
               options.codecs[row.codec], width, row.depth, median(row.prefill_tok_s), decode,
               row.decode_bytes / 1e6, row.decode_bytes * decode / 1e9, floor,
               100 * decode / floor);
  }
}

Result<int> bench_command(const Options& asked) {
  init_log(asked.model.verbosity);
  Options options = asked;
  RK_TRY(check_flags(options));
  if (options.codecs.empty()) return make_error(ErrorKind::usage, "--codecs names no codec");
  checkpoint::Checkpoint checkpoint =
      RK_TRY(checkpoint::open(options.model.model, {.tokenizer = false}));
  Session session =
      RK_TRY(start(std::move(checkpoint), flags_of(options, options.codecs[0]), options.runtime));
  engine::Engine& engine = *session.engine;
  if (options.cache.kv_budget > 0) options.codecs = {engine.plan().budget_codec};
  BandwidthMeter meter = RK_TRY(BandwidthMeter::create(session.device->pool()));

  // Every cache is tried before anything is measured.
  std::vector<Row> rows;
  for (const int64_t depth : options.depths)
    for (size_t codec = 0; codec < options.codecs.size(); ++codec) {
      RK_TRY(engine.set_cache(flags_of(options, options.codecs[codec])));
      if (depth == options.depths[0] && codec > 0) report_plan(engine.plan());
      rows.push_back({.codec = codec,
                      .depth = depth,
                      .decode_bytes = decode_bytes(
                          engine, std::max<int64_t>(depth, 1) + (options.decode + 1) / 2)});
    }
  const InterruptScope scope;
  Progress progress("bench", static_cast<double>(rows.size()) * options.repetitions);
  double done = 0;
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    meter.measure();
    for (Row& row : rows) {
      if (scope.interrupted()) return make_error(ErrorKind::interrupted, "interrupted");
      RK_TRY(engine.set_cache(flags_of(options, options.codecs[row.codec])));
      row.decode_tok_s.push_back(RK_TRY(decode_speed(engine, row.depth, options.decode)));
      row.prefill_tok_s.push_back(RK_TRY(prefill_speed(engine, row.depth, options.prompt)));
      progress.update(++done);
    }
  }
  meter.measure();
  const std::string machine = fmt::format("{}, {} threads", cpu_name(), options.runtime.threads);
  (options.model.json ? print_rows_json : print_rows_text)(rows, options, machine,
                                                           meter.best_gb_s());
  return 0;
}

}  // namespace

Command add_bench(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "measure prefill and decode speed by codec and depth");
  auto options = std::make_shared<Options>();
  add_model_options(*command, options->model);
  add_json_option(*command, options->model);
  const char* group = "Measurement";
  add_integer(*command, "-p,--prompt-tokens", options->prompt, "tokens to prefill", 1, kMostTokens)
      ->group(group);
  add_integer(*command, "-n,--max-tokens", options->decode, "tokens to decode", 1, kMostTokens)
      ->group(group);
  add_integer(*command, "-d,--depths", options->depths,
              "tokens already in the cache, multiples of --chunk", 0, kMostTokens)
      ->type_name("N,...")
      ->delimiter(',')
      ->group(group);
  CLI::Option* budget = add_cache_options(*command, options->cache, false);
  command->add_option("--codecs", options->codecs, "codecs of the cache (see run --kv-bits)")
      ->type_name("CODEC,...")
      ->delimiter(',')
      ->capture_default_str()
      ->excludes(budget)
      ->group(group);
  add_integer(*command, "-r,--repetitions", options->repetitions, "the median of this many counts",
              1, 10000)
      ->group(group);
  add_runtime_options(*command, options->runtime);
  return {command, [options] { return bench_command(*options); }};
}

}  // namespace ringkeep::cli
