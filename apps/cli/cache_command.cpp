// `cache make|inspect|check`: saved caches as files.
#include "base/atomic_file.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "cli/commands.h"
#include "cli/generate.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/mlx_cache.h"
#include "engine/saved_state.h"
#include "prompt/prompt.h"

namespace ringkeep::cli {
namespace {

constexpr size_t kPromptLimit = size_t{1} << 30;

struct Options {
  ModelOptions model;
  CacheFlags cache;
  RuntimeOptions runtime;
  std::string file;
  std::string prompt;
  std::string prompt_file;
  std::string check_model;
  bool tokens = false;
};

// make ------------------------------------------------------------------------------------------

Result<int> make(Options options) {
  init_log(options.model.verbosity);
  options.cache.prefix_cache_bytes = -1;
  options.cache.save = true;
  RK_TRY(AtomicFile::create(options.file));  // before all the work
  const std::string text = options.prompt_file.empty()
                               ? options.prompt
                               : RK_TRY(read_text_file(options.prompt_file, kPromptLimit));
  checkpoint::Checkpoint checkpoint = RK_TRY(checkpoint::open(options.model.model));
  if (checkpoint.tokenizer.kind == TokenizerData::Kind::none)
    return input_error("{}: the checkpoint has no tokenizer ({})", checkpoint.path,
                       checkpoint.tokenizer.note);
  const Session session = RK_TRY(start(std::move(checkpoint), options.cache, options.runtime));
  engine::Engine& engine = *session.engine;
  engine::Request request;
  request.tokens =
      RK_TRY(prompt::build_completion_prompt(*engine.tokenizer(), text, engine.plan().max_length()))
          .tokens;
  request.max_tokens = 1;  // all of the prompt is in the cache once a token follows it
  request.sampling.temperature = 0.0f;
  std::vector<int32_t> tokens = request.tokens;
  const Generation generation =
      RK_TRY(generate(engine, std::move(request), [](const std::string&) { return Status(); }));
  if (generation.interrupted) return make_error(ErrorKind::interrupted, "interrupted");
  tokens.insert(tokens.end(), generation.tokens.begin(), generation.tokens.end());
  RK_TRY(engine.save_cache(tokens, options.file));
  fmt::print(stderr, "{}: {} tokens\n", options.file, tokens.size() - generation.tokens.size());
  return 0;
}

// inspect ---------------------------------------------------------------------------------------

// One layer of a file of either kind.
struct LayerLine {
  int layer = 0;
  std::string holds;  // tier, or mlx-lm's cache class
  kernels::KvGeometry geometry;
  std::string rows;
  size_t bytes = 0;
};

struct Description {
  std::string format;
  int64_t tokens = 0;
  std::vector<int32_t> ids;
  engine::Fingerprint fields;
  std::vector<LayerLine> layers;
};

size_t bytes_of(const engine::HostPlane& plane) {
  return plane.codes.bytes + plane.scales.bytes + plane.biases.bytes;
}

Result<Description> describe(std::span<const std::byte> bytes, const std::string& name) {
  Description d;
  if (RK_TRY(engine::holds_mlx_cache(bytes, name))) {
    const engine::MlxCache cache = RK_TRY(engine::parse_mlx_cache(bytes, name));
    d.format = "mlx-lm prompt cache";
    d.tokens = cache.length;
    for (size_t i = 0; i < cache.layers.size(); ++i) {
      const engine::MlxLayer& layer = cache.layers[i];
      size_t size = 0;
      for (int a = 0; a < 3; ++a) size += layer.k[a].bytes + layer.v[a].bytes;
      std::vector<int64_t> held;
      for (const int64_t token : layer.token_of)
        if (token >= 0) held.push_back(token);
      std::ranges::sort(held);
      d.layers.push_back({static_cast<int>(i), layer.cache_class, layer.geometry,
                          engine::describe(engine::ranges_of(held)), size});
    }
    return d;
  }
  engine::SavedState state = RK_TRY(engine::parse_saved_state(bytes, name));
  d.format = fmt::format("ringkeep cache, version {}", engine::kSavedVersion);
  d.tokens = static_cast<int64_t>(state.tokens.size());
  d.ids = std::move(state.tokens);
  d.fields = std::move(state.fingerprint);
  for (const engine::SavedRows& rows : state.layers)
    d.layers.push_back({rows.layer, rows.tier, rows.geometry, engine::describe(rows.ranges),
                        bytes_of(rows.rows.k) + bytes_of(rows.rows.v)});
  return d;
}

Json description_json(const Description& d, size_t file_bytes, bool ids) {
  Json layers = Json::array();
  for (const LayerLine& line : d.layers)
    layers.push_back(Json{{"layer", line.layer},
                          {"holds", line.holds},
                          {"kv_heads", line.geometry.kv_heads},
                          {"k", kernels::describe(line.geometry.k)},
                          {"v", kernels::describe(line.geometry.v)},
                          {"k_dim", line.geometry.k_dim},
                          {"v_dim", line.geometry.v_dim},
                          {"tokens", line.rows},
                          {"bytes", line.bytes}});
  Json json{{"format", d.format}, {"tokens", d.tokens}, {"bytes", file_bytes}};
  json["fields"] = Json::object();
  for (const auto& [field, value] : d.fields) json["fields"][field] = value;
  json["layers"] = std::move(layers);
  if (ids) json["token_ids"] = d.ids;
  return json;
}

Result<int> inspect(const Options& options) {
  init_log(options.model.verbosity);
  const MappedFile file = RK_TRY(MappedFile::open(options.file));
  const Description d = RK_TRY(describe(file.bytes(), options.file));
  if (options.model.json) {
    print_json(description_json(d, file.bytes().size(), options.tokens));
    return 0;
  }
  fmt::print("{}, {} tokens, {}\n", d.format, d.tokens,
             human_bytes(static_cast<double>(file.bytes().size())));
  for (const auto& [field, value] : d.fields) fmt::print("{:<20} {}\n", field, value);
  if (options.tokens) fmt::print("tokens {}\n", fmt::join(d.ids, ","));
  for (const LayerLine& line : d.layers)
    fmt::print("layer {:<3} {:<16} K {} V {}, {} x {}/{}, tokens {}, {}\n", line.layer, line.holds,
               kernels::describe(line.geometry.k), kernels::describe(line.geometry.v),
               line.geometry.kv_heads, line.geometry.k_dim, line.geometry.v_dim, line.rows,
               human_bytes(static_cast<double>(line.bytes)));
  return 0;
}

// check -----------------------------------------------------------------------------------------

Result<int> check(Options options) {
  init_log(options.model.verbosity);
  {
    const MappedFile file = RK_TRY(MappedFile::open(options.file));
    const Description d = RK_TRY(describe(file.bytes(), options.file));
    const bool ours = !d.fields.empty();
    if (ours) RK_TRY(engine::check_saved_state_sum(file.bytes(), options.file));
    fmt::print("{}: {}, {} tokens: sizes{} are right\n", options.file, d.format, d.tokens,
               ours ? " and SHA-256" : "");
  }
  if (options.check_model.empty()) return 0;
  options.cache.prefix_cache_bytes = -1;
  options.cache.save = true;
  const Session session =
      RK_TRY(start(RK_TRY(checkpoint::open(options.check_model)), options.cache, options.runtime));
  const engine::LoadedCache loaded = RK_TRY(session.engine->load_cache(options.file));
  if (!loaded.note.empty()) spdlog::warn("{}: {}", options.file, loaded.note);
  fmt::print("{}: fits {} with these flags\n", options.file, options.check_model);
  return 0;
}

void add_cache_of_model(CLI::App& app, Options& options) {
  add_cache_options(app, options.cache);
  add_context_option(app, options.cache);
  add_runtime_options(app, options.runtime);
}

}  // namespace

Command add_cache(CLI::App& app) {
  CLI::App* command = app.add_subcommand("cache", "make, inspect and check saved caches");
  command->require_subcommand(1);
  auto options = std::make_shared<Options>();
  const auto add_file = [options](CLI::App& to) {
    to.add_option("FILE", options->file, "the saved cache")->required();
  };

  CLI::App* making = command->add_subcommand("make", "run a prompt and save its cache");
  add_model_options(*making, options->model);
  add_file(*making);
  CLI::Option_group* input = making->add_option_group("Prompt");
  input->add_option("-p,--prompt", options->prompt, "the text, as it is")->type_name("TEXT");
  input->add_option("-f,--prompt-file", options->prompt_file, "a file of text")->type_name("FILE");
  input->require_option(1);
  add_cache_of_model(*making, *options);

  CLI::App* inspecting =
      command->add_subcommand("inspect", "what a saved cache, or a prompt cache of mlx-lm, holds");
  add_file(*inspecting);
  inspecting->add_flag("--tokens", options->tokens, "the token ids too")->group("Output");
  add_json_option(*inspecting, options->model);

  CLI::App* checking = command->add_subcommand(
      "check", "verify sizes and SHA-256 and, with --model, that a run could go on from it");
  add_file(*checking);
  checking->add_option("--model", options->check_model, "the model; with the flags of the run")
      ->type_name("MODEL");
  add_cache_of_model(*checking, *options);

  return {command, [options, making, inspecting] {
            if (making->parsed()) return make(*options);
            return inspecting->parsed() ? inspect(*options) : check(*options);
          }};
}

}  // namespace ringkeep::cli
