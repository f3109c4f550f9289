// `run`: text from a prompt, or a chat on a terminal.
#include <unistd.h>

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "cli/chat.h"
#include "cli/commands.h"
#include "cli/generate.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/prompt_cache.h"
#include "cli/reply_view.h"
#include "prompt/named_templates.h"
#include "prompt/prompt.h"

namespace ringkeep::cli {
namespace {

constexpr size_t kPromptLimit = size_t{1} << 28;  // bytes

struct Options {
  ModelOptions model;
  CacheFlags cache;
  RuntimeOptions runtime;
  SamplingOptions sampling;
  std::string prompt;
  std::string prompt_file;
  bool has_prompt = false;
  bool has_max_tokens = false;
  bool has_prefix_cache = false;
  bool raw = false;
  bool chat = false;
  std::string system;
  std::string chat_template;  // file or name
  PromptCacheOptions prompt_cache;
};

bool interactive(const Options& options) {
  return !options.has_prompt && options.prompt_file.empty() && ::isatty(0) != 0;
}

Result<std::string> prompt_text(const Options& options) {
  std::string text = options.prompt;
  if (!options.has_prompt)
    text = options.prompt_file.empty() ? RK_TRY(read_stdin(kPromptLimit))
                                       : RK_TRY(read_text_input(options.prompt_file, kPromptLimit));
  if (text.empty()) return make_error(ErrorKind::usage, "the prompt is empty");
  return text;
}

// Generates once; the text streams to stdout unless one JSON object is asked for.
Result<int> complete(engine::Engine& engine, engine::Request request, ReplyView view, bool json,
                     const PromptCache& cache) {
  std::vector<int32_t> tokens = request.tokens;
  Generation generation = RK_TRY(generate(
      engine, std::move(request),
      [&](const std::string& text) { return view.push(text, /*print=*/!json); },
      [&](const engine::GenerationStats& stats) { cache.report(tokens, stats); }));
  RK_TRY(view.finish(generation, /*print=*/!json));
  tokens.insert(tokens.end(), generation.tokens.begin(), generation.tokens.end());
  if (json) {
    print_json(generation_json(generation));
  } else {
    RK_TRY(print_now("\n"));
    print_note("{}", generation_summary(engine, generation));
  }
  RK_TRY(cache.save(engine, tokens));
  return generation.interrupted ? exit_code(ErrorKind::interrupted) : 0;
}

Result<int> run_command(Options options) {
  init_log(options.model.verbosity);
  const bool talk = interactive(options);
  if (talk && options.model.json)
    return make_error(ErrorKind::usage, "--json needs a prompt: give -p, --prompt-file or stdin");
  // Every turn of a chat begins with the turns before it.
  if (talk && !options.has_prefix_cache) options.cache.prefix_cache_bytes = -1;
  PromptCache cache(options.prompt_cache);
  cache.require(options.cache, options.has_prefix_cache);
  RK_TRY(cache.check());
  RK_TRY(checkpoint::resolve(options.model.model));  // what is missing is told before stdin is read
  const std::string text = talk ? "" : RK_TRY(prompt_text(options));

  engine::Request request;
  request.sampling = RK_TRY(sampling_params(options.sampling));
  spdlog::info("seed {}", request.sampling.seed);
  request.max_tokens = options.sampling.max_tokens;
  request.stop = options.sampling.stop;
  request.ignore_eos = options.sampling.ignore_eos;

  checkpoint::Checkpoint checkpoint = RK_TRY(checkpoint::open(options.model.model));
  // Everything that the flags alone decide is checked before the weights are read.
  RK_TRY(check_logit_bias(request.sampling, checkpoint));
  RK_TRY(engine::validate(request.sampling, checkpoint.config.vocab_size));
  if (checkpoint.tokenizer.kind == TokenizerData::Kind::none)
    return input_error("{}: the checkpoint has no tokenizer ({})", checkpoint.path,
                       checkpoint.tokenizer.note);
  std::optional<text::ChatTemplate> chat_template;
  if (!options.raw)
    chat_template = RK_TRY(load_chat_template(checkpoint.tokenizer, options.chat_template));
  if (!chat_template && options.chat)
    return input_error("{}: the model has no chat template: give one with --chat-template",
                       checkpoint.path);
  if (!chat_template && !options.system.empty())
    return make_error(ErrorKind::usage, "--system needs a chat template, and {}",
                      options.raw ? "--raw leaves it out" : "the model has none");

  const Session session = RK_TRY(start(std::move(checkpoint), options.cache, options.runtime));
  engine::Engine& engine = *session.engine;
  RK_TRY(cache.load(engine));
  cache.apply(request);
  const text::ChatTemplate* use_template = chat_template ? &*chat_template : nullptr;
  if (talk) {
    if (cache.continues())
      return make_error(ErrorKind::usage, "{} holds no token ids: give a prompt to go on with",
                        options.prompt_cache.file);
    if (chat_template && !options.has_max_tokens) request.max_tokens = -1;
    const std::vector<int32_t> tokens =
        RK_TRY(chat(engine, use_template, options.system, std::move(request)));
    RK_TRY(cache.save(engine, tokens));
    return 0;
  }
  const text::Tokenizer& tokenizer = *engine.tokenizer();
  prompt::Prompt prompt;
  if (cache.continues()) {
    prompt = RK_TRY(build_continuation(tokenizer, use_template, text));
  } else if (chat_template) {
    Json messages = first_messages(options.system);
    messages.push_back(Json{{"role", "user"}, {"content", text}});
    prompt = RK_TRY(prompt::build_chat_prompt(tokenizer, *chat_template, messages,
                                              {.context = engine.plan().max_length()}));
  } else {
    prompt = RK_TRY(prompt::build_completion_prompt(tokenizer, text, engine.plan().max_length()));
  }
  request.tokens = std::move(prompt.tokens);
  ReplyView view(use_template, prompt.text, tokenizer, request);
  return complete(engine, std::move(request), std::move(view), options.model.json, cache);
}

}  // namespace

Command add_run(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "generate from a prompt, or chat on a terminal");
  auto options = std::make_shared<Options>();
  add_model_options(*command, options->model);
  add_json_option(*command, options->model);
  const char* group = "Prompt";
  CLI::Option* prompt =
      command->add_option("-p,--prompt", options->prompt, "the prompt (default: stdin)")
          ->type_name("TEXT")
          ->group(group);
  command->add_option("-f,--prompt-file", options->prompt_file, "read the prompt from a file")
      ->type_name("FILE")
      ->group(group)
      ->excludes(prompt);
  CLI::Option* raw =
      command->add_flag("--raw", options->raw, "do not apply the model's chat template")
          ->group(group);
  command->add_flag("--chat", options->chat, "refuse a model without a chat template")
      ->group(group)
      ->excludes(raw);
  command
      ->add_option("--chat-template", options->chat_template,
                   fmt::format("a Jinja chat template, or one of {}, in place of the model's",
                               prompt::kNamedTemplates))
      ->type_name("FILE|NAME")
      ->group(group)
      ->excludes(raw);
  command->add_option("--system", options->system, "system message of the chat")
      ->type_name("TEXT")
      ->group(group);
  add_prompt_cache_options(*command, options->prompt_cache);
  add_sampling_options(*command, options->sampling);
  add_cache_options(*command, options->cache);
  add_context_option(*command, options->cache);
  CLI::Option* prefix_cache = add_prefix_cache_option(*command, options->cache);
  add_runtime_options(*command, options->runtime);
  return {command, [options, command, prompt, prefix_cache] {
            options->has_prompt = prompt->count() > 0;
            options->has_prefix_cache = prefix_cache->count() > 0;
            options->has_max_tokens = command->get_option("--max-tokens")->count() > 0;
            return run_command(*options);
          }};
}

}  // namespace ringkeep::cli
