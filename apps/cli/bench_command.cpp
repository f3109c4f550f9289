// `bench`: prefill and decode speed by codec and depth, beside the floor that the memory bandwidth
// of the machine sets. Codecs take turns within each repetition, so that drift hits all alike.
#include <algorithm>

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "cli/bandwidth.h"
#include "cli/bench_measure.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/machine.h"
#include "cli/numbers.h"
#include "cli/options.h"
#include "cli/output.h"
#include "kv/codec_flags.h"

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
  bool breakdown = false;
};

// The cache of one codec (the one that a budget chose: of that budget): a sequence for every depth
// and one more, that continues one of them.
CacheFlags flags_of(const Options& options, const std::string& codec) {
  CacheFlags flags = options.cache;
  if (flags.kv_budget == 0) flags.kv_bits = codec;
  flags.ctx = *std::max_element(options.depths.begin(), options.depths.end()) +
              std::max(options.prompt, options.decode + 1) + 1;
  flags.parallel = static_cast<int64_t>(options.depths.size()) + 1;
  return flags;
}

// The ops of one measured run, dearest first: (use, cost).
std::vector<std::pair<std::string, kernels::OpCost>> by_time(const kernels::OpProfile& profile) {
  std::vector<std::pair<std::string, kernels::OpCost>> ops(profile.costs().begin(),
                                                           profile.costs().end());
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) {
    return a.second.seconds > b.second.seconds;
  });
  return ops;
}

Json ops_json(const kernels::OpProfile& profile) {
  Json out = Json::array();
  for (const auto& [use, cost] : by_time(profile))
    out.push_back(Json{{"op", use},
                       {"calls", cost.calls},
                       {"seconds", cost.seconds},
                       {"bytes", cost.bytes},
                       {"operations", cost.operations}});
  return out;
}

void print_breakdown(const std::string& title, const kernels::OpProfile& profile, int64_t tokens) {
  double total = 0;
  for (const auto& [use, cost] : profile.costs()) total += cost.seconds;
  fmt::print("\n{}: {:.3f} ms a token in ops\n", title, 1e3 * total / static_cast<double>(tokens));
  for (const auto& [use, cost] : by_time(profile)) {
    fmt::print("  {:<36} {:>6} calls {:>10.1f} us a call {:>6.1f}%", use, cost.calls,
               1e6 * cost.seconds / static_cast<double>(cost.calls), 100 * cost.seconds / total);
    if (cost.bytes > 0) fmt::print(" {:>8.1f} GB/s", cost.bytes / cost.seconds / 1e9);
    if (cost.operations > 0) fmt::print(" {:>8.1f} Gop/s", cost.operations / cost.seconds / 1e9);
    fmt::print("\n");
  }
}

void print_rows_json(const std::vector<BenchRow>& rows, const Options& options,
                     const std::string& machine, double bandwidth) {
  Json out = Json::array();
  for (const BenchRow& row : rows) {
    Json one{{"codec", row.codec},
             {"depth", row.depth},
             {"prefill_tok_s", median(row.prefill_tok_s)},
             {"decode_tok_s", median(row.decode_tok_s)},
             {"decode_bytes", static_cast<int64_t>(row.decode_bytes)},
             {"expert_bytes", static_cast<int64_t>(row.expert_bytes)},
             {"expert_loaded_bytes", static_cast<int64_t>(row.loaded_bytes)},
             {"decode_floor_tok_s", bandwidth * 1e9 / row.decode_bytes}};
    if (options.breakdown) {
      one["prefill_ops"] = ops_json(row.prefill_ops);
      one["decode_ops"] = ops_json(row.decode_ops);
    }
    out.push_back(std::move(one));
  }
  print_json(Json{{"machine", machine}, {"bandwidth_gb_s", bandwidth}, {"rows", std::move(out)}});
}

// What a step read of a mixture of experts, below the table.
void print_experts(const BenchRow& row, const engine::Engine& engine) {
  const ModelConfig& config = engine.config();
  if (config.experts == 0) return;
  fmt::print("\n{} of {} experts a layer: a decode step read {:.1f} MB of their {:.1f} MB\n",
             config.experts_used, config.experts, row.expert_bytes / 1e6,
             static_cast<double>(engine.expert_bytes()) / 1e6);
  if (const auto usage = engine.expert_usage())
    fmt::print("{:.1f} MB of it came from the file; memory holds {:.1f} MB\n",
               row.loaded_bytes / 1e6, static_cast<double>(usage->memory_bytes) / 1e6);
}

void print_rows_text(const std::vector<BenchRow>& rows, const Options& options,
                     const std::string& machine, double bandwidth) {
  fmt::print("{}\nstreaming read bandwidth {:.1f} GB/s\n\n", machine, bandwidth);
  size_t width = 10;
  for (const std::string& codec : options.codecs) width = std::max(width, codec.size());
  fmt::print("{:<{}} {:>7} {:>14} {:>13} {:>12} {:>8} {:>12} {:>8}\n", "codec", width, "depth",
             "prefill tok/s", "decode tok/s", "MB a step", "GB/s", "floor tok/s", "of floor");
  for (const BenchRow& row : rows) {
    const double decode = median(row.decode_tok_s);
    const double floor = bandwidth * 1e9 / row.decode_bytes;
    fmt::print("{:<{}} {:>7} {:>14.1f} {:>13.1f} {:>12.1f} {:>8.1f} {:>12.1f} {:>7.0f}%\n",
               row.codec, width, row.depth, median(row.prefill_tok_s), decode,
               row.decode_bytes / 1e6, row.decode_bytes * decode / 1e9, floor,
               100 * decode / floor);
  }
  if (!options.breakdown) return;
  for (const BenchRow& row : rows) {
    const std::string at = fmt::format("{} at depth {}", row.codec, row.depth);
    print_breakdown("prefill, " + at, row.prefill_ops, options.prompt);
    print_breakdown("decode, " + at, row.decode_ops, options.decode);
  }
}

Result<int> bench_command(const Options& asked) {
  init_log(asked.model.verbosity);
  Options options = asked;
  for (const std::string& codec : options.codecs) {
    CacheFlags flags = options.cache;
    flags.kv_bits = codec;
    for (const LayerKind kind : {LayerKind::full, LayerKind::sliding})
      RK_TRY(kv::codec_for(flags, kind, "--codecs"));
  }
  checkpoint::Checkpoint checkpoint =
      RK_TRY(checkpoint::open(options.model.model, {.tokenizer = false}));
  Session session =
      RK_TRY(start(std::move(checkpoint), flags_of(options, options.codecs[0]), options.runtime));
  engine::Engine& engine = *session.engine;
  if (options.cache.kv_budget > 0) options.codecs = {engine.plan().budget_codec};
  BandwidthMeter meter = RK_TRY(BandwidthMeter::create(session.device->pool()));

  // Every cache is made before anything is measured.
  std::vector<std::unique_ptr<engine::Lane>> lanes;
  for (const std::string& codec : options.codecs) {
    lanes.push_back(
        RK_TRY(engine::Lane::create(engine, flags_of(options, codec), options.runtime.exact)));
    if (lanes.size() > 1) report_plan(lanes.back()->plan());  // start() has told of the first
  }
  std::vector<BenchRow> rows;
  for (const int64_t depth : options.depths)
    for (size_t i = 0; i < lanes.size(); ++i)
      rows.push_back(
          RK_TRY(bench_row(engine, *lanes[i], options.codecs[i], depth, options.decode)));
  const InterruptScope scope;
  Progress progress("bench", static_cast<double>(rows.size()) * options.repetitions);
  double done = 0;
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    meter.measure();
    for (BenchRow& row : rows) {
      if (scope.interrupted()) return make_error(ErrorKind::interrupted, "interrupted");
      row.decode_tok_s.push_back(RK_TRY(decode_speed(engine, row, options.decode, nullptr)));
      row.prefill_tok_s.push_back(RK_TRY(prefill_speed(engine, row, options.prompt, nullptr)));
      progress.update(++done);
    }
  }
  meter.measure();
  if (options.breakdown)  // apart from the repetitions: reading clocks takes time
    for (BenchRow& row : rows) {
      if (scope.interrupted()) return make_error(ErrorKind::interrupted, "interrupted");
      RK_TRY(decode_speed(engine, row, options.decode, &row.decode_ops));
      RK_TRY(prefill_speed(engine, row, options.prompt, &row.prefill_ops));
    }
  const std::string machine = fmt::format("{}, {} threads", cpu_name(), options.runtime.threads);
  (options.model.json ? print_rows_json : print_rows_text)(rows, options, machine,
                                                           meter.best_gb_s());
  if (!options.model.json) print_experts(rows.front(), engine);
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
  add_list(*command, "-d,--depths", options->depths, "tokens already in the cache",
           whole_number(0, kMostTokens))
      ->type_name("N,...")
      ->group(group);
  CLI::Option* budget = add_cache_options(*command, options->cache, false);
  add_list(*command, "--codecs", options->codecs, "codecs of the cache (see run --kv-bits)")
      ->type_name("CODEC,...")
      ->excludes(budget)
      ->group(group);
  add_integer(*command, "-r,--repetitions", options->repetitions, "the median of this many counts",
              1, 10000)
      ->group(group);
  command->add_flag("--breakdown", options->breakdown, "also show what each operation took")
      ->group(group);
  add_runtime_options(*command, options->runtime);
  return {command, [options] { return bench_command(*options); }};
}

}  // namespace ringkeep::cli
