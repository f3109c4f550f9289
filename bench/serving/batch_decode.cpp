// Decode speed of several sequences at once, greedy and sampled:
//
//   batch_decode MODEL [--sequences 1,8,32] [--depth N] [--steps N] [--kv-bits CODEC] [--threads N]
#include <CLI/CLI.hpp>
#include <chrono>
#include <random>

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "kernels/select/select.h"

namespace ringkeep {
namespace {

struct Options {
  std::string model;
  std::vector<int> sequences = {1, 4, 8, 16, 32};
  int64_t depth = 64, steps = 32;
  int threads = 2;
  std::string codec = "8";
};

struct Speed {
  double seconds_a_step = 0, tokens_a_second = 0;
};

Result<Speed> measure(engine::Engine& engine, int sequences, const Options& options, bool greedy) {
  std::mt19937 random(1);
  for (int i = 0; i < sequences; ++i) {
    engine::Request request;
    request.tokens = {2};
    while (static_cast<int64_t>(request.tokens.size()) < options.depth)
      request.tokens.push_back(1000 + static_cast<int32_t>(random() % 20000));
    request.max_tokens = options.steps + sequences + options.depth;
    request.ignore_eos = true;
    request.sampling.seed = static_cast<uint64_t>(i);
    if (greedy) request.sampling.temperature = 0.0f;
    RK_TRY(engine.submit(std::move(request)));
  }
  size_t decoding = 0;
  while (decoding < static_cast<size_t>(sequences)) decoding = engine.step().size();
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < options.steps; ++i)
    for (const auto& event : engine.step())
      if (event.error) return *event.error;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double each = seconds / static_cast<double>(options.steps);
  for (int64_t id = 1; !engine.idle(); ++id) engine.cancel(id);
  return Speed{each, sequences / each};
}

Result<int> run(const Options& options) {
  const auto device = kernels::make_cpu_device(options.threads);
  const kernels::Ops ops = kernels::cpu_backend();
  engine::EngineOptions engine_options;
  engine_options.cache.kv_bits = options.codec;
  engine_options.cache.parallel =
      *std::max_element(options.sequences.begin(), options.sequences.end());
  const auto engine = RK_TRY(engine::Engine::load(RK_TRY(checkpoint::open(options.model, {})),
                                                  engine_options, ops, *device));
  fmt::print("sequences  reply    ms/step   tok/s\n");
  for (const int sequences : options.sequences)
    for (const bool greedy : {true, false}) {
      const Speed speed = RK_TRY(measure(*engine, sequences, options, greedy));
      fmt::print("{:9}  {:7}  {:7.2f}  {:6.1f}\n", sequences, greedy ? "greedy" : "sampled",
                 1e3 * speed.seconds_a_step, speed.tokens_a_second);
    }
  return 0;
}

}  // namespace
}  // namespace ringkeep

int main(int argc, char** argv) {
  ringkeep::Options options;
  CLI::App app("decode speed of several sequences at once");
  app.add_option("MODEL", options.model)->required();
  app.add_option("--sequences", options.sequences)->delimiter(',')->capture_default_str();
  app.add_option("--depth", options.depth, "tokens of each prompt")->capture_default_str();
  app.add_option("--steps", options.steps)->capture_default_str();
  app.add_option("--kv-bits", options.codec)->capture_default_str();
  app.add_option("--threads", options.threads)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto result = ringkeep::run(options);
  if (result.ok()) return *result;
  fmt::print(stderr, "{}\n", result.error().message);
  return ringkeep::exit_code(result.error().kind);
}
