// GET routes: health, models, the cache, metrics.
#include <algorithm>

#include "server/openai/app.h"

namespace ringkeep::openai {
namespace {

// "full 0-5" and the like is for people; programs get the layers one by one.
Json group_json(const kv::KvPlan& plan, size_t index, const kv::GroupUsage& usage) {
  const kv::GroupPlan& group = plan.groups[index];
  const kv::LayerPlan& layer = plan.layers[static_cast<size_t>(group.layers.front())];
  return {{"layers", group.layers},
          {"kind", layer_kind_name(layer.kind)},
          {"window", group.window > 0 ? Json(group.window) : Json()},
          {"keep", group.keep},
          {"k", kernels::describe(group.geometry.k)},
          {"v", kernels::describe(group.geometry.v)},
          {"hot", group.hot},
          {"before_start", group.before_start},
          {"page_tokens", kernels::kPageTokens},
          {"pages_total", group.pages_total + group.pages_snapshots},
          {"pages_used", usage.pages_used},
          {"pages_owned", usage.pages_owned},
          {"pages_held", usage.pages_held},
          {"bytes_used", usage.bytes_used},
          {"bytes_per_page", group.page_bytes * group.layers.size()}};
}

Json sequence_json(const engine::SequenceView& sequence) {
  const engine::GenerationStats& stats = sequence.stats;
  const bool decoding = stats.generated_tokens > 0;
  return {{"id", sequence.id},
          {"state", !sequence.running ? "waiting"
                    : decoding        ? "decoding"
                                      : "prefilling"},
          {"length", sequence.length},
          {"prompt_tokens", stats.prompt_tokens},
          {"cached_tokens", stats.cached_tokens},
          {"generated_tokens", stats.generated_tokens},
          {"pages", sequence.pages}};
}

http::Response health(const App& app) {
  const auto error = app.unavailable();
  if (!error) return {.body = dump({{"status", "ok"}})};
  http::Response response = error_response(*error);
  Json body = error_json(*error);
  body["status"] = error->code;
  response.body = dump(body);
  return response;
}

http::Response metrics_text(App& app) {
  const auto model = app.model();
  const bool healthy = !app.unavailable();
  http::Response response{.content_type = "text/plain; version=0.0.4; charset=utf-8"};
  if (!model) {
    response.body = app.metrics().text(nullptr, nullptr, healthy);
    return response;
  }
  const engine::Snapshot snapshot = model->service->snapshot();
  response.body = app.metrics().text(&snapshot, model->plan, healthy);
  return response;
}

// An adapter as a model of its own; `root` is the folder's name, not where it lies.
Json adapter_json(const Model& model, size_t index) {
  const ServedAdapter& adapter = model.adapters[index];
  Json entry = model_json(model);
  entry["id"] = adapter.name;
  entry["root"] = adapter.folder;
  entry["parent"] = model.names.front();
  entry["meta"]["lora"] = {{"id", index}, {"scale", adapter.scale}};
  return entry;
}

}  // namespace

Json model_json(const Model& model) {
  return {{"id", model.names.front()},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "ringkeep"},
          {"root", model.names.front()},
          {"parent", nullptr},
          {"max_model_len", model.plan->max_length()},
          {"meta",
           {{"family", model.config.family},
            {"vocab_size", model.config.vocab_size},
            {"n_ctx_train", model.config.trained_context},
            {"chat_template", model.chat_template.has_value()}}}};
}

Json models_json(const Model& model) {
  Json list = Json::array();
  for (const std::string& name : model.names) {
    Json entry = model_json(model);
    entry["id"] = name;
    list.push_back(std::move(entry));
  }
  for (size_t i = 0; i < model.adapters.size(); ++i) list.push_back(adapter_json(model, i));
  return {{"object", "list"}, {"data", std::move(list)}};
}

Json kv_json(const Model& model) {
  const engine::Snapshot snapshot = model.service->snapshot();
  const kv::KvPlan& plan = *model.plan;
  Json groups = Json::array(), sequences = Json::array();
  for (size_t i = 0; i < snapshot.groups.size(); ++i)
    groups.push_back(group_json(plan, i, snapshot.groups[i]));
  for (const auto& sequence : snapshot.sequences) sequences.push_back(sequence_json(sequence));
  const engine::ServingStats& serving = snapshot.serving;
  return {{"groups", std::move(groups)},
          {"sequences", std::move(sequences)},
          {"totals",
           {{"bytes_used", snapshot.bytes_used},
            {"kv_bytes", plan.kv_bytes},
            {"kv_prefill_bytes", plan.kv_prefill_bytes},
            {"prefix_cache_bytes", plan.prefix_cache_bytes},
            {"parallel", plan.parallel},
            {"ctx", plan.ctx},
            {"running", serving.running},
            {"waiting", serving.waiting},
            {"preemptions", serving.preemptions},
            {"prompt_tokens", serving.prompt_tokens},
            {"cached_tokens", serving.cached_tokens},
            {"generated_tokens", serving.generated_tokens},
            {"prefix_hits", serving.prefix_hits}}}};
}

namespace {

// Routes of llama-server, vLLM and Ollama that clients try here.
void add_foreign_routes(http::Router& router) {
  const auto at = [&](const char* meant, std::initializer_list<const char*> paths) {
    for (const char* path : paths) router.add_advice(path, fmt::format("but at {}", meant));
  };
  const auto none = [&](const char* what, std::initializer_list<const char*> paths) {
    for (const char* path : paths) router.add_advice(path, fmt::format("{} not supported", what));
  };
  at("/v1/completions", {"/completion"});
  at("/v1/chat/completions", {"/v1/responses", "/v1/messages", "/api/chat", "/api/generate"});
  at("/tokenize, which takes messages", {"/apply-template"});
  at("/v1/models and /kv", {"/props", "/api/tags", "/lora-adapters"});
  at("/kv", {"/slots"});
  at("/health", {"/ping"});
  at("/metrics", {"/load"});
  at("/openapi.json", {"/version", "/docs"});
  none("embeddings and ranks are",
       {"/embedding", "/embeddings", "/v1/embeddings", "/rerank", "/v1/rerank", "/pooling"});
  none("filling in the middle is", {"/infill"});
}

}  // namespace

void App::add_routes(http::Router& router) {
  add_foreign_routes(router);
  const auto post = [&](const char* path, void (*handle)(App&, const ExchangePointer&)) {
    router.add(
        {.method = "POST",
         .pattern = path,
         .handler = [this, handle](const ExchangePointer& exchange) { handle(*this, exchange); },
         .needs_model = true,
         .consumes = "application/json"});
  };
  const auto get = [&](const char* path, bool needs_model, auto answer) {
    router.add({.method = "GET",
                .pattern = path,
                .handler =
                    [answer](const ExchangePointer& exchange) {
                      exchange->respond(answer(exchange->request()));
                    },
                .quick = true,
                .needs_model = needs_model});
  };
  post("/v1/chat/completions", handle_chat);
  post("/v1/completions", handle_completion);
  post("/tokenize", handle_tokenize);
  post("/detokenize", handle_detokenize);
  router.add(
      {.method = "GET",
       .pattern = "/health",
       .handler = [this](const ExchangePointer& exchange) { exchange->respond(health(*this)); },
       .quick = true,
       .open = true});
  get("/metrics", false, [this](const http::Request&) { return metrics_text(*this); });
  get("/kv", true,
      [this](const http::Request&) { return http::Response{.body = dump(kv_json(*model()))}; });
  get("/v1/models", true,
      [this](const http::Request&) { return http::Response{.body = dump(models_json(*model()))}; });
  get("/v1/models/{id}", true, [this](const http::Request& request) {
    const auto model = this->model();
    const std::string& id = request.parameters.at("id");
    if (const int adapter = find_adapter(*model, id); adapter >= 0)
      return http::Response{.body = dump(adapter_json(*model, static_cast<size_t>(adapter)))};
    if (std::ranges::count(model->names, id) == 0)
      return error_response({.status = 404,
                             .message = fmt::format("there is no model \"{}\"", id),
                             .param = "model",
                             .code = "model_not_found"});
    Json body = model_json(*model);
    body["id"] = id;
    return http::Response{.body = dump(body)};
  });
  get("/openapi.json", false, [this](const http::Request&) {
    return http::Response{.body = dump(openapi_json(settings_.defaults))};
  });
}

}  // namespace ringkeep::openai
