// `serve`: the model behind an HTTP API.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/log.h"
#include "base/memory_reserve.h"
#include "base/sha256.h"
#include "cli/adapter_options.h"
#include "cli/chat.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/serve_options.h"
#include "cli/stop_signal.h"
#include "kv/codec_flags.h"
#include "server/openai/app.h"
#include "server/web/routes.h"

namespace ringkeep::cli {
namespace {

using std::chrono::milliseconds;

constexpr double kAnswersAfterDeath = 2.0;  // seconds in which /health tells why
constexpr double kLongestStall = 30.0;      // seconds; then a supervisor has to start anew
// Destructors of JSON want room for all members of a value at once: 16 bytes for two of "1,1,...".
constexpr size_t kReservePerByte = 8;
constexpr size_t kMostReserve = size_t{64} << 20;  // bytes of a body
constexpr double kFlush = 5.0;                     // seconds for answers to get out at the end

// "folder/model.gguf" -> "model"; others as they are.
std::string default_name(const std::string& model) {
  std::filesystem::path path(model);
  if (!path.has_filename()) path = path.parent_path();  // a folder with a slash behind it
  if (path.extension() == ".gguf") return path.stem().string();
  return std::filesystem::exists(model) ? path.filename().string() : model;
}

// One word for model, cache and numerics: when it changes, replies may.
std::string fingerprint(const engine::Engine& engine, const ServeOptions& options) {
  const ModelConfig& config = engine.config();
  std::string text =
      fmt::format("{} {} {} {} {} {}", config.family, config.name, config.vocab_size,
                  engine.weight_bytes(), options.runtime.exact, options.runtime.weight_bits);
  for (const kv::GroupPlan& group : engine.plan().groups)
    text += fmt::format(" {}/{}/{}/{}", kernels::describe(group.geometry.k),
                        kernels::describe(group.geometry.v), group.window, group.keep);
  return "rk_" + sha256_hex(text).substr(0, 12);
}

openai::ServedAdapter served_adapter(const engine::AdapterInfo& info, const std::string& model) {
  const engine::AdapterOption& option = info.option;
  std::filesystem::path folder(option.path);
  if (!folder.has_filename()) folder = folder.parent_path();
  return {.name = option.name,
          .path = option.path,
          .folder = folder.filename().string(),
          .scale = option.scale,
          .fingerprint = "rk_" + sha256_hex(model + info.sha256).substr(0, 12)};
}

class Serving {
 public:
  explicit Serving(ServeOptions options) : options_(std::move(options)) {}

  Result<int> run() {
    http::init_server_log(
        options_.log_format == "json" ? http::LogFormat::json : http::LogFormat::text,
        options_.quiet ? 0 : 1 + options_.model.verbosity);
    RK_TRY(check_access());
    RK_TRY(check_parsers());
    if (options_.names.empty()) options_.names = {default_name(options_.model.model)};
    adapters_ = RK_TRY(parse_adapters(options_.runtime.adapters));
    for (const engine::AdapterOption& adapter : adapters_.options)
      if (std::ranges::count(options_.names, adapter.name) > 0)
        return make_error(ErrorKind::usage,
                          "--adapter: \"{}\" is the name of the model, give another: NAME=PATH",
                          adapter.name);
    template_ = RK_TRY(chat_template_source(options_.chat_template));
    if (!template_.empty()) {
      const auto parsed = text::ChatTemplate::parse(template_);
      if (!parsed.ok())
        return input_error("{}: {}", options_.chat_template, parsed.error().message);
    }
    for (const LayerKind kind : {LayerKind::full, LayerKind::sliding})
      RK_TRY(kv::codec_for(options_.cache, kind));
    RK_TRY(listen());
    Status loaded = load();
    if (!loaded.ok()) {
      server_->stop();
      return std::move(loaded).error();
    }
    stop_.serving();
    return serve();
  }

 private:
  Status check_access() {
    keys_ = RK_TRY(api_keys(options_));
    if (!keys_.empty() || options_.allow_unauthenticated) return {};
    if (!RK_TRY(http::is_loopback(options_.host)))
      return make_error(ErrorKind::usage,
                        "--host {}: other machines could use the server without a key: give "
                        "--api-key, --api-key-file or RINGKEEP_API_KEY, or "
                        "--allow-unauthenticated",
                        options_.host);
    return {};
  }

  Status check_parsers() {
    const auto named = [](const char* flag, const Error& error) {
      return make_error(ErrorKind::usage, "{}: {} (or auto)", flag, error.message);
    };
    if (options_.tool_parser != "auto") {
      const auto format = prompt::tool_format_by_name(options_.tool_parser);
      if (!format.ok()) return named("--tool-call-parser", format.error());
      tools_ = *format;
    }
    if (options_.reasoning_parser != "auto") {
      const auto format = prompt::reasoning_format_by_name(options_.reasoning_parser);
      if (!format.ok()) return named("--reasoning-parser", format.error());
      reasoning_ = *format;
    }
    return {};
  }

  // Answers from here on, with 503 until the model is there.
  Status listen() {
    openai::Settings settings;
    settings.names = options_.names;
    settings.defaults.sampling = options_.sampling;
    if (options_.max_tokens != -2)
      settings.defaults.chat_max_tokens = settings.defaults.completion_max_tokens =
          options_.max_tokens;
    settings.max_open = options_.cache.parallel + options_.max_queue;
    keep_memory_reserve(kReservePerByte * std::min(options_.limits.body_bytes, kMostReserve));
    app_ = std::make_unique<openai::App>(settings);
    http::Router router;
    app_->add_routes(router);
    web::add_routes(router);
    http::Options access = app_->http_options(options_.limits, options_.cors_origins, keys_);
    access.this_machine_only = keys_.empty() && !options_.allow_unauthenticated;
    server_ = RK_TRY(
        http::Server::listen(options_.host, options_.port, std::move(access), std::move(router)));
    app_->set_server(server_.get());
    server_->start();
    const std::string url = "http://" + server_->addresses().front();
    if (options_.model.json)
      RK_TRY(print_now(
          Json{{"host", options_.host}, {"port", server_->port()}, {"url", url}}.dump() + "\n"));
    for (const std::string& address : server_->addresses())
      http::log_event("listening", {{"url", "http://" + address},
                                    {"keys", std::string(keys_.empty() ? "no" : "yes")}});
    return {};
  }

  Status load() {
    const auto begin = std::chrono::steady_clock::now();
    auto checkpoint = RK_TRY(checkpoint::open(options_.model.model));
    RuntimeOptions runtime = options_.runtime;
    runtime.adapters.clear();
    auto engine_options = RK_TRY(cli::engine_options(options_.cache, runtime));
    engine_options.reserve_tokens = options_.reserve_tokens;
    engine_options.adapters = adapters_.options;
    engine_options.adapter = adapters_.for_all;
    session_ = RK_TRY(start(std::move(checkpoint), engine_options, runtime));
    engine::Engine& engine = *session_.engine;

    auto model = std::make_shared<openai::Model>();
    model->names = app_->settings().names;
    model->created = std::time(nullptr);
    model->fingerprint = fingerprint(engine, options_);
    for (const engine::AdapterInfo& info : engine.adapters())
      model->adapters.push_back(served_adapter(info, model->fingerprint));
    model->adapter = adapters_.for_all;
    model->tokenizer = engine.tokenizer();
    model->config = engine.config();
    model->plan = &engine.plan();
    model->defaults = app_->settings().defaults;
    model->defaults.vocab_size = model->config.vocab_size;
    if (model->tokenizer != nullptr) {
      model->constraints = std::make_shared<openai::Constraints>(*model->tokenizer);
      // Rows of the embedding that no token has are nobody's to name.
      model->defaults.vocab_size = std::min(model->defaults.vocab_size, model->tokenizer->size());
      read_template(*model);
    }
    model->reply_format = prompt::detect_reply_format(model->template_source);
    if (tools_) model->reply_format.tools = *tools_;
    if (reasoning_) model->reply_format.reasoning = *reasoning_;
    RK_TRY(prompt::check_reply_format(model->reply_format));
    RK_TRY(engine::validate(model->defaults.sampling, model->defaults.vocab_size));

    // With --max-kv-size a context has no end: a chat that never ends would keep its place.
    if (engine.plan().max_kv_size > 0 && options_.max_tokens == -2)
      model->defaults.chat_max_tokens = options_.cache.ctx > 0 ? options_.cache.ctx
                                        : engine.config().trained_context > 0
                                            ? engine.config().trained_context
                                            : engine.plan().ctx;

    const char* fault = std::getenv("RINGKEEP_TEST_FAULT");
    service_ = RK_TRY(engine::Service::start(engine, {.max_open = app_->settings().max_open,
                                                      .stalled_after = options_.stall_timeout,
                                                      .fault = fault != nullptr ? fault : ""}));
    model->service = service_.get();
    app_->ready(model);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    http::log_event("ready", {{"model", model->names.front()},
                              {"seconds", seconds},
                              {"ctx", engine.plan().ctx},
                              {"parallel", int64_t{engine.plan().parallel}},
                              {"kv_bytes", static_cast<int64_t>(engine.plan().kv_bytes)},
                              {"chat", std::string(model->chat_template ? "yes" : "no template")}});
    return {};
  }

  // The model's own template may be one that cannot be read: then there is no chat, but all else.
  void read_template(openai::Model& model) {
    model.template_source = !template_.empty() ? template_ : model.tokenizer->data().chat_template;
    if (model.template_source.empty()) return;
    auto parsed = text::ChatTemplate::parse(model.template_source);
    if (parsed.ok()) {
      model.chat_template = std::move(*parsed);
      return;
    }
    model.template_problem = parsed.error().message;
    spdlog::warn("the model's chat template cannot be used, chat requests are refused: {}",
                 parsed.error().message);
  }

  // Until a signal or the death of the engine.
  Result<int> serve() {
    for (;;) {
      if (const int signal = stop_.wait(milliseconds(100)); signal != 0) return drain(signal);
      const engine::EngineHealth health = service_->health();
      if (health.state == engine::EngineHealth::State::dead) return die(health.reason);
      if (health.state == engine::EngineHealth::State::stalled &&
          health.stalled_seconds > kLongestStall)
        abandon(health.reason);
    }
  }

  Result<int> drain(int signal) {
    http::log_event("draining", {{"signal", int64_t{signal}}, {"open", service_->open_requests()}});
    app_->drain();
    server_->finish_connections();
    const bool all = service_->drain(options_.drain_timeout);
    server_->flush(kFlush);
    server_->stop();
    http::log_event("stopped", {{"cut_short", std::string(all ? "no" : "yes")}});
    if (service_->health().state == engine::EngineHealth::State::stalled)
      abandon("the engine stands still");
    service_.reset();
    return all ? 0 : 1;
  }

  // In-flight requests have their error already.
  Result<int> die(const std::string& reason) {
    http::log_error("engine", {{"error", reason}});
    std::this_thread::sleep_for(std::chrono::duration<double>(kAnswersAfterDeath));
    server_->finish_connections();
    server_->flush(kFlush);
    server_->stop();
    return make_error(ErrorKind::runtime, "the engine stopped: {}", reason);
  }

  // A thread that stands still cannot be joined.
  [[noreturn]] void abandon(const std::string& reason) {
    http::log_error("engine", {{"error", reason}});
    std::fflush(nullptr);
    ::_exit(exit_code(ErrorKind::runtime));
  }

  ServeOptions options_;
  StopSignal stop_;  // before any thread
  http::ApiKeys keys_;
  std::string template_;
  std::optional<prompt::ToolFormat> tools_;  // nothing: as the template tells
  std::optional<prompt::ReasoningFormat> reasoning_;
  Adapters adapters_;
  std::unique_ptr<openai::App> app_;
  std::unique_ptr<http::Server> server_;
  Session session_;
  std::unique_ptr<engine::Service> service_;  // ends before the engine and the server
};

}  // namespace

Command add_serve(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve", "an OpenAI-compatible HTTP server");
  auto options = std::make_shared<ServeOptions>();
  add_model_options(*command, options->model);
  command
      ->add_flag("--json", options->model.json,
                 "print one JSON object on stdout when it listens: host, port, url")
      ->group("Output");
  add_serve_options(*command, *options);
  add_sampler_options(*command, options->sampling);
  add_cache_options(*command, options->cache);
  add_context_option(*command, options->cache);
  add_parallel_option(*command, options->cache);
  add_prefix_cache_option(*command, options->cache);
  add_runtime_options(*command, options->runtime);
  return {command, [options] { return Serving(*options).run(); }};
}

}  // namespace ringkeep::cli
