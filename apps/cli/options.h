// The flags that commands share, as plain structs, and their declarations in --help groups.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "config/cache_flags.h"
#include "engine/engine.h"
#include "kernels/api/device.h"
#include "kernels/api/ops.h"
#include "text/tokenizer.h"

namespace ringkeep::cli {

struct ModelOptions {
  std::string model;
  int verbosity = 0;
  bool json = false;
};

struct RuntimeOptions {
  int threads = 1;
  bool exact = false;
  int weight_bits = 0;
  int weight_group = 64;
  std::string expert_memory = "auto";  // of parse_expert_memory()
  bool explain_kernels = false;
  std::vector<std::string> adapters;  // [NAME=]PATH[=SCALE]
};

struct SamplingOptions {
  engine::SamplingParams params;        // without the seed
  std::optional<uint64_t> seed;         // nothing: a random one
  std::vector<std::string> logit_bias;  // "ID:BIAS"
  int64_t max_tokens = 256;
  std::vector<std::string> stop;
  bool ignore_eos = false;
};

CLI::Option* add_model_options(CLI::App& app, ModelOptions& options);
void add_json_option(CLI::App& app, ModelOptions& options);
// Codec, size and chunk of the cache. `codec` false leaves --kv-bits and its halves out (bench and
// eval have --codecs). Returns --kv-budget, which excludes them.
CLI::Option* add_cache_options(CLI::App& app, CacheFlags& flags, bool codec = true);
void add_context_option(CLI::App& app, CacheFlags& flags);
CLI::Option* add_prefix_cache_option(CLI::App& app, CacheFlags& flags);
void add_parallel_option(CLI::App& app, CacheFlags& flags);
void add_expert_memory_option(CLI::App& app, std::string& text);
// --expert-memory included.
void add_weight_options(CLI::App& app, RuntimeOptions& options);
// Weight options and --adapter included.
void add_runtime_options(CLI::App& app, RuntimeOptions& options);
// What of them chooses a token.
void add_sampler_options(CLI::App& app, engine::SamplingParams& params);
void add_sampling_options(CLI::App& app, SamplingOptions& options);

// EngineOptions::expert_memory of "auto", "all" or bytes. Errors: usage.
Result<std::optional<size_t>> parse_expert_memory(const std::string& text);

// The sampling parameters with a seed, and the biases parsed. Errors (usage) name the flag and the
// value.
Result<engine::SamplingParams> sampling_params(const SamplingOptions& options);
// Biases are of tokens that the tokenizer has, where there is one: a model may have more rows.
// Errors (usage): name the flag, the token and the vocabulary.
Status check_logit_bias(const engine::SamplingParams& params,
                        const checkpoint::Checkpoint& checkpoint);

// "A:B", ":B", "A:" or ":" within [0, length]: the half-open range. Errors: usage.
Result<std::pair<int64_t, int64_t>> parse_range(const std::string& text, int64_t length);

// "2,10,11" (a comma or white space between two): token ids in [0, vocab_size). `what` they are,
// for errors (usage): "--tokens", "--tokens-file FILE".
Result<std::vector<int32_t>> parse_token_ids(const std::string& text, int64_t vocab_size,
                                             const std::string& what);

// The tokenizer of a checkpoint. Errors (input): it has none, or an inconsistent one.
Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(checkpoint::Checkpoint checkpoint);

// A loaded engine with the device and the kernels it runs on.
struct Session {
  std::unique_ptr<kernels::Device> device;
  std::unique_ptr<kernels::Ops> ops;
  std::unique_ptr<engine::Engine> engine;
};

// Everything goes through the one adapter of `runtime`. Errors (usage): more than one; see
// parse_adapters.
Result<engine::EngineOptions> engine_options(const CacheFlags& flags,
                                             const RuntimeOptions& runtime);

// What --kv-budget chose, and the warnings of the plan, on stderr.
void report_plan(const kv::KvPlan& plan);

// Where experts stay in the file, on stderr.
void report_experts(const engine::Engine& engine);

// Makes the device and the engine, prints --explain-kernels and the plan's warnings (stderr).
Result<Session> start(checkpoint::Checkpoint checkpoint, const CacheFlags& flags,
                      const RuntimeOptions& runtime);
Result<Session> start(checkpoint::Checkpoint checkpoint, const engine::EngineOptions& options,
                      const RuntimeOptions& runtime);

}  // namespace ringkeep::cli
