#include "cli/options.h"

#include <algorithm>
#include <cstdio>
#include <random>

#include "base/log.h"
#include "cli/adapter_options.h"
#include "cli/machine.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "kernels/select/select.h"
#include "kv/budget.h"

namespace ringkeep::cli {
namespace {

constexpr int64_t kMostGroup = 1 << 16;  // channels of a head
constexpr int64_t kMostSequences = 1 << 16;

uint64_t random_seed() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace
CLI::Option* add_model_options(CLI::App& app, ModelOptions& options) {
  app.add_flag("-v,--verbose", options.verbosity, "more log lines (-vv: debug)")->group("Output");
  return app.add_option("MODEL", options.model, "model file, folder, org/name or `demo`")
      ->required();
}

void add_json_option(CLI::App& app, ModelOptions& options) {
  app.add_flag("--json", options.json, "print one JSON object on stdout")->group("Output");
}

CLI::Option* add_cache_options(CLI::App& app, CacheFlags& flags, bool codec) {
  const char* group = "Cache";
  CLI::Option* budget =
      app.add_option("--kv-budget", flags.kv_budget,
                     "choose the best codecs whose cache takes at most so much, e.g. 512M, 1.5GiB")
          ->transform(byte_count())
          ->type_name("BYTES")
          ->group(group);
  app.add_option("--kv-memory", flags.kv_memory,
                 "what all sequences together may take, e.g. 512M, 1.5GiB; without it each may "
                 "come to its bound")
      ->transform(byte_count())
      ->type_name("BYTES")
      ->excludes(budget)
      ->group(group);
  app.add_option("--kv-calibration", flags.kv_calibration,
                 "factors of the K balance, as `calibrate` writes them")
      ->type_name("FILE")
      ->group(group);
  if (codec) {
    app.add_option("--kv-bits", flags.kv_bits,
                   "CODEC: f16, 8 6 5 4 3 2, KaVb, 5.5 4.5 3.5 2.5, affineB:G, or by layer kind "
                   "full=CODEC+sliding=CODEC")
        ->type_name("CODEC")
        ->capture_default_str()
        ->excludes(budget)
        ->group(group);
    app.add_option("--kv-key-bits", flags.kv_key_bits, "the K half, over --kv-bits")
        ->type_name("BITS")
        ->excludes(budget)
        ->group(group);
    app.add_option("--kv-value-bits", flags.kv_value_bits, "the V half, over --kv-bits")
        ->type_name("BITS")
        ->excludes(budget)
        ->group(group);
  }
  app.add_option("--kv-hot", flags.kv_hot,
                 "codec of the newest one or two pages of 64 tokens, where older ones are below 8 "
                 "bits: none, 8 (the default) or f16")
      ->type_name("CODEC")
      ->group(group);
  app.add_option("--kv-scheme", flags.kv_scheme, "hadamard or affine")
      ->type_name("NAME")
      ->capture_default_str()
      ->group(group);
  add_integer(app, "--kv-group-size", flags.kv_group_size,
              "channels under one scale; 0: hadamard a whole row, affine 64", 0, kMostGroup)
      ->group(group);
  add_integer(app, "--quantized-kv-start", flags.quantized_kv_start,
              "rows with a lower index stay f16", 0, kMostTokens)
      ->group(group);
  add_integer(app, "--max-kv-size", flags.max_kv_size,
              "most tokens that a full layer holds; 0: unbounded", 0, kMostTokens)
      ->group(group);
  add_integer(app, "--keep", flags.keep, "first tokens that a bounded full layer never drops", 0,
              kMostTokens)
      ->group(group);
  add_integer(app, "--chunk,--prefill-step-size,--ubatch-size", flags.chunk,
              "most tokens of a prefill step", 1, kMostTokens)
      ->group(group);
  return budget;
}

void add_context_option(CLI::App& app, CacheFlags& flags) {
  app.add_option("-c,--ctx,--ctx-size,--max-model-len", flags.ctx,
                 "most tokens of a sequence, e.g. 32768 or 32K; 0: the trained context, at most "
                 "4096")
      ->transform(token_count(0, kMostTokens))
      ->type_name("N")
      ->capture_default_str()
      ->group("Cache");
}

void add_parallel_option(CLI::App& app, CacheFlags& flags) {
  add_integer(app, "--parallel,--max-num-seqs", flags.parallel,
              "sequences at the same time; also -np", 1, kMostSequences)
      ->group("Cache");
}

CLI::Option* add_prefix_cache_option(CLI::App& app, CacheFlags& flags) {
  return app
      .add_option("--prefix-cache-bytes", flags.prefix_cache_bytes,
                  "snapshots of the cache for prompts that begin alike, e.g. 512M; -1: as much as "
                  "the cache itself; 0: none")
      ->transform(byte_count({-1, 0}))
      ->type_name("BYTES")
      ->capture_default_str()
      ->group("Cache");
}

void add_expert_memory_option(CLI::App& app, std::string& text) {
  const auto check = [](std::string& value) -> std::string {
    if (value == "auto" || value == "all") return {};
    const std::string wrong = byte_count()(value);
    return wrong.empty() ? wrong : wrong + ", or auto, or all";
  };
  app.add_option("--expert-memory", text,
                 "most memory of packed experts, e.g. 8G; the others are read from the file when "
                 "they are needed. all; auto: as many as fit")
      ->transform(CLI::Validator(check, ""))
      ->type_name("BYTES")
      ->capture_default_str()
      ->group("Weights");
}

void add_weight_options(CLI::App& app, RuntimeOptions& options) {
  add_expert_memory_option(app, options.expert_memory);
  add_integer(app, "--weight-bits", options.weight_bits,
              "quantize dense weights while loading: 2 3 4 5 6 8; 0: as they are", 0, 8)
      ->check(CLI::IsMember({0, 2, 3, 4, 5, 6, 8}))
      ->group("Weights");
  add_integer(app, "--weight-group", options.weight_group, "columns under one scale: 32 64 128", 32,
              128)
      ->check(CLI::IsMember({32, 64, 128}))
      ->group("Weights");
}

void add_runtime_options(CLI::App& app, RuntimeOptions& options) {
  options.threads = default_threads();
  const char* group = "Compute";
  add_integer(app, "-t,--threads", options.threads, "threads (default: the physical cores)", 1,
              1024)
      ->group(group);
  app.add_flag("--exact", options.exact, "float32 activations in the weight products (slower)")
      ->group(group);
  app.add_flag("--explain-kernels", options.explain_kernels,
               "print the kernels of every operation on stderr")
      ->group(group);
  add_weight_options(app, options);
  add_adapter_option(app, options.adapters);
}

// The ranges of engine::validate() and of a request's fields.
void add_sampler_options(CLI::App& app, engine::SamplingParams& params) {
  const char* group = "Sampling";
  add_real(app, "--temp,--temperature", params.temperature, "0: greedy", 0, 100)->group(group);
  add_integer(app, "--top-k", params.top_k, "0 or -1: off", -1, INT32_MAX)->group(group);
  add_real(app, "--top-p", params.top_p, "1: off", 0, 1)->group(group);
  add_real(app, "--min-p", params.min_p, "0: off", 0, 1)->group(group);
  add_real(app, "--repetition-penalty,--repeat-penalty", params.repetition_penalty,
           "of tokens in prompt and output; 1: off", 1e-3, 100)
      ->group(group);
  add_real(app, "--presence-penalty", params.presence_penalty, "of tokens in the output", -2, 2)
      ->group(group);
  add_real(app, "--frequency-penalty", params.frequency_penalty, "of tokens in the output", -2, 2)
      ->group(group);
}

void add_sampling_options(CLI::App& app, SamplingOptions& options) {
  const char* group = "Sampling";
  engine::SamplingParams& params = options.params;
  add_sampler_options(app, params);
  app.add_option("--logit-bias", options.logit_bias,
                 "add BIAS to the logit of token ID (repeatable)")
      ->type_name("ID:BIAS")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("-s,--seed", options.seed,
                 "seed of the random numbers (default: a random one, which -v tells)")
      ->transform(seed_number())
      ->type_name("N")
      ->group(group);
  add_integer(app, "-n,--max-tokens,--n-predict", options.max_tokens,
              "most tokens to generate; -1: until the context ends", -1, INT64_MAX)
      ->group(group);
  app.add_option("--stop", options.stop, "end at this text (repeatable)")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group(group);
  app.add_flag("--ignore-eos", options.ignore_eos, "go on after an end token")->group(group);
}

Result<engine::SamplingParams> sampling_params(const SamplingOptions& options) {
  engine::SamplingParams params = options.params;
  params.seed = options.seed ? *options.seed : random_seed();
  for (const std::string& text : options.logit_bias) {
    const size_t colon = text.find(':');
    if (colon == std::string::npos)
      return make_error(ErrorKind::usage, "--logit-bias: expected ID:BIAS, found \"{}\"", text);
    const auto id = RK_TRY(
        parse_number<int32_t>(std::string_view(text).substr(0, colon), "--logit-bias (token id)"));
    const auto bias = RK_TRY(
        parse_number<float>(std::string_view(text).substr(colon + 1), "--logit-bias (bias)"));
    if (!(bias >= -100.0f && bias <= 100.0f))
      return make_error(ErrorKind::usage, "--logit-bias {}: expected a bias from -100 to 100",
                        text);
    if (std::ranges::count(params.logit_bias, id, [](const auto& one) { return one.first; }) > 0)
      return make_error(ErrorKind::usage, "--logit-bias {}: token {} has a bias already", text, id);
    params.logit_bias.emplace_back(id, bias);
  }
  if (options.max_tokens == 0)
    return make_error(ErrorKind::usage, "--max-tokens: expected -1 or at least 1, found 0");
  for (const std::string& stop : options.stop)
    if (stop.empty()) return make_error(ErrorKind::usage, "--stop: the text is empty");
  return params;
}

Result<std::pair<int64_t, int64_t>> parse_range(const std::string& text, int64_t length) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos)
    return make_error(ErrorKind::usage, "--positions: expected A:B, found \"{}\"", text);
  const std::string_view first = std::string_view(text).substr(0, colon);
  const std::string_view last = std::string_view(text).substr(colon + 1);
  int64_t begin = 0;
  int64_t end = length;
  if (!first.empty()) begin = RK_TRY(parse_number<int64_t>(first, "--positions"));
  if (!last.empty()) end = RK_TRY(parse_number<int64_t>(last, "--positions"));
  if (begin < 0 || end > length || begin >= end)
    return make_error(ErrorKind::usage,
                      "--positions: expected A:B with 0 <= A < B <= {} (the tokens), found \"{}\"",
                      length, text);
  return std::pair(begin, end);
}

Result<std::vector<int32_t>> parse_token_ids(const std::string& text, int64_t vocab_size,
                                             const std::string& what) {
  static constexpr std::string_view kBlank = " \t\r\n";
  static constexpr std::string_view kSeparators = ", \t\r\n";
  std::vector<int32_t> ids;
  bool comma = false;  // the last thing that was seen
  for (size_t at = text.find_first_not_of(kBlank); at != std::string::npos;
       at = text.find_first_not_of(kBlank, at)) {
    if (text[at] == ',') {
      if (comma || ids.empty()) break;
      comma = true;
      ++at;
      continue;
    }
    comma = false;
    const size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    const auto id =
        RK_TRY(parse_number<int32_t>(std::string_view(text).substr(at, end - at), what.c_str()));
    if (id < 0 || id >= vocab_size)
      return make_error(ErrorKind::usage, "{}: token id {} is outside the vocabulary [0, {})", what,
                        id, vocab_size);
    ids.push_back(id);
    at = end;
  }
  if (comma || (ids.empty() && text.find(',') != text.npos))
    return make_error(ErrorKind::usage,
                      "{}: expected token ids with a comma or white space between two of them, "
                      "found an empty entry after {} of them",
                      what, ids.size());
  return ids;
}

Status check_logit_bias(const engine::SamplingParams& params,
                        const checkpoint::Checkpoint& checkpoint) {
  const auto tokens = static_cast<int64_t>(checkpoint.tokenizer.pieces.size());
  const int64_t most = checkpoint.tokenizer.kind == TokenizerData::Kind::none
                           ? checkpoint.config.vocab_size
                           : std::min(checkpoint.config.vocab_size, tokens);
  for (const auto& [token, bias] : params.logit_bias)
    if (token < 0 || token >= most)
      return make_error(ErrorKind::usage,
                        "--logit-bias: expected a token id from 0 to {}, found {}", most - 1,
                        token);
  return {};
}

Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(checkpoint::Checkpoint checkpoint) {
  if (checkpoint.tokenizer.kind == TokenizerData::Kind::none)
    return input_error("{}: the checkpoint has no tokenizer ({})", checkpoint.path,
                       checkpoint.tokenizer.note);
  return text::Tokenizer::create(std::move(checkpoint.tokenizer));
}

Result<std::optional<size_t>> parse_expert_memory(const std::string& text) {
  if (text == "auto") return std::optional<size_t>();
  if (text == "all") return std::optional<size_t>(SIZE_MAX);
  const auto bytes = kv::parse_bytes(text);
  if (!bytes.ok())
    return make_error(ErrorKind::usage, "--expert-memory: expected auto, all or bytes: {}",
                      bytes.error().message);
  return std::optional<size_t>(*bytes);
}

Result<engine::EngineOptions> engine_options(const CacheFlags& flags,
                                             const RuntimeOptions& runtime) {
  engine::EngineOptions options;
  Adapters adapters = RK_TRY(parse_one_adapter(runtime.adapters));
  options.adapters = std::move(adapters.options);
  options.adapter = adapters.for_all;
  options.cache = flags;
  options.exact = runtime.exact;
  options.weight_bits = runtime.weight_bits;
  options.weight_group = runtime.weight_group;
  options.expert_memory = RK_TRY(parse_expert_memory(runtime.expert_memory));
  return options;
}

void report_plan(const kv::KvPlan& plan) {
  if (plan.budget > 0)
    fmt::print(stderr, "kv-budget: chose --kv-bits {}, {} of {}\n", plan.budget_codec,
               human_bytes(static_cast<double>(plan.kv_bytes + plan.kv_prefill_bytes)),
               human_bytes(static_cast<double>(plan.budget)));
  for (const std::string& warning : plan.warnings) spdlog::warn("{}", warning);
}

void report_experts(const engine::Engine& engine) {
  const auto usage = engine.expert_usage();
  if (!usage) return;
  spdlog::warn("{} of {} of experts are held in memory at most, the others stay in the file",
               human_bytes(static_cast<double>(usage->memory_bytes)),
               human_bytes(static_cast<double>(engine.expert_bytes())));
}

Result<Session> start(checkpoint::Checkpoint checkpoint, const CacheFlags& flags,
                      const RuntimeOptions& runtime) {
  return start(std::move(checkpoint), RK_TRY(engine_options(flags, runtime)), runtime);
}

Result<Session> start(checkpoint::Checkpoint checkpoint, const engine::EngineOptions& options,
                      const RuntimeOptions& runtime) {
  Session session;
  session.device = kernels::make_cpu_device(runtime.threads);
  session.ops = std::make_unique<kernels::Ops>(kernels::cpu_backend());
  if (const int started = session.device->pool().threads(); started < runtime.threads)
    return make_error(ErrorKind::runtime, "--threads {}: the system starts no more than {}",
                      runtime.threads, started);
  if (runtime.explain_kernels) std::fputs(kernels::explain(*session.ops).c_str(), stderr);
  session.engine =
      RK_TRY(engine::Engine::load(std::move(checkpoint), options, *session.ops, *session.device));
  spdlog::info("loaded: {} bytes of weights, peak memory {} bytes", session.engine->weight_bytes(),
               peak_memory_bytes());
  report_experts(*session.engine);
  report_plan(session.engine->plan());
  return session;
}

}  // namespace ringkeep::cli
