// What the routes share: the model that is served, the settings, and what state the server is in.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/service.h"
#include "prompt/reply_format.h"
#include "server/http/exchange.h"
#include "server/http/options.h"
#include "server/http/router.h"
#include "server/http/server.h"
#include "server/openai/api_error.h"
#include "server/openai/constraints.h"
#include "server/openai/metrics.h"
#include "server/openai/request.h"
#include "text/chat_template.h"

namespace ringkeep::openai {

// A LoRA adapter that requests may choose; its place is the engine's index of it.
struct ServedAdapter {
  std::string name;
  std::string path;    // as it was given
  std::string folder;  // its last part
  float scale = 1.0f;
  std::string fingerprint;  // as Model::fingerprint, with the adapter
};

// A loaded model. Read by all threads, changed by none.
struct Model {
  std::vector<std::string> names;  // that requests may call it by, the first is told
  int64_t created = 0;
  std::string fingerprint;  // of model, cache and program
  std::vector<ServedAdapter> adapters;
  int adapter = -1;  // of requests that choose none; -1: none
  engine::Service* service = nullptr;
  const text::Tokenizer* tokenizer = nullptr;  // null: the checkpoint has none
  std::optional<text::ChatTemplate> chat_template;
  std::string template_source;
  std::string template_problem;      // why it cannot be used; empty: it can, or there is none
  prompt::ReplyFormat reply_format;  // how it writes reasoning and tool calls
  std::shared_ptr<Constraints> constraints;  // null without a tokenizer
  ModelConfig config;
  const kv::KvPlan* plan = nullptr;
  Defaults defaults;
};

struct Settings {
  std::vector<std::string> names;
  Defaults defaults;
  int64_t max_open = 0;  // requests running or waiting; 0: any number
};

class App {
 public:
  enum class Phase { loading, ready, draining };

  explicit App(Settings settings) : settings_(std::move(settings)) {}

  const Settings& settings() const { return settings_; }
  Metrics& metrics() { return metrics_; }
  Phase phase() const { return phase_; }
  void set_server(http::Server* server) { server_ = server; }
  void post(std::function<void()> work) { server_->post(std::move(work)); }

  void ready(std::shared_ptr<const Model> model);
  void drain() { phase_ = Phase::draining; }
  std::shared_ptr<const Model> model() const;  // null while loading

  // Why a request sent now would not be served; nothing when it would.
  std::optional<ApiError> unavailable() const;
  // Seconds until a place in the queue is likely to be free.
  int retry_after() const;

  // Routes of the API, and what the HTTP side asks for.
  void add_routes(http::Router& router);
  http::Options http_options(http::Limits limits, std::vector<std::string> cors_origins,
                             http::ApiKeys keys);

 private:
  const Settings settings_;
  Metrics metrics_;
  http::Server* server_ = nullptr;
  std::atomic<Phase> phase_{Phase::loading};
  mutable std::mutex mutex_;
  std::shared_ptr<const Model> model_;
};

// Routes, one file each.
using ExchangePointer = std::shared_ptr<http::Exchange>;
void handle_chat(App& app, const ExchangePointer& exchange);
void handle_completion(App& app, const ExchangePointer& exchange);
void handle_tokenize(App& app, const ExchangePointer& exchange);
void handle_detokenize(App& app, const ExchangePointer& exchange);
Json models_json(const Model& model);
Json model_json(const Model& model);
Json kv_json(const Model& model);
Json openapi_json(const Defaults& defaults);

// The body of a request as an object; answers with 400 and gives nothing when it is none.
std::optional<Json> read_body(const ExchangePointer& exchange);
// The adapter of that name; -1: there is none.
int find_adapter(const Model& model, const std::string& name);
// What `model`, `adapters` and `lora` of a request choose: an index, -1 for none, or nothing where
// they say nothing of adapters. An error names the field.
struct AdapterChoice {
  std::optional<int> adapter;
  std::optional<ApiError> error;
};
AdapterChoice choose_adapter(const Model& model, const GenerationFields& fields);
// Answers 404 and gives false unless the model or an adapter has that name; an empty one is the
// model's.
bool check_model(const Model& model, const std::string& name, const ExchangePointer& exchange);

}  // namespace ringkeep::openai
