#include "server/openai/app.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "server/http/log.h"

namespace ringkeep::openai {

void App::ready(std::shared_ptr<const Model> model) {
  {
    const std::lock_guard lock(mutex_);
    model_ = std::move(model);
  }
  Phase loading = Phase::loading;
  phase_.compare_exchange_strong(loading, Phase::ready);  // unless it is being shut down already
}

std::shared_ptr<const Model> App::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

std::optional<ApiError> App::unavailable() const {
  const auto error = [](const char* code, std::string message) {
    return ApiError{.status = 503, .message = std::move(message), .code = code, .retry_after = 2};
  };
  switch (phase_.load()) {
    case Phase::loading: return error("loading", "the model is being loaded");
    case Phase::draining: return error("draining", "the server is shutting down");
    case Phase::ready: break;
  }
  const engine::EngineHealth health = model()->service->health();
  if (health.state == engine::EngineHealth::State::alive) return std::nullopt;
  return error(health.state == engine::EngineHealth::State::dead ? "engine_dead" : "engine_stalled",
               health.reason);
}

int App::retry_after() const {
  const auto model = this->model();
  if (!model) return 1;
  const double waiting = static_cast<double>(model->service->open_requests());
  const double places = std::max(1, model->plan->parallel);
  const double seconds = metrics_.typical_seconds() * std::max(1.0, waiting / places - 1.0);
  return static_cast<int>(std::clamp(std::ceil(seconds), 1.0, 120.0));
}

std::optional<Json> read_body(const ExchangePointer& exchange) {
  auto body = parse_json(exchange->request().body);
  if (!body.ok()) {
    exchange->respond(
        error_response({.message = "the body: " + body.error().message, .code = "invalid_json"}));
    return std::nullopt;
  }
  if (!body->is_object()) {
    exchange->respond(error_response(
        {.message = fmt::format("the body: expected an object, found {}", describe(*body)),
         .code = "invalid_json"}));
    return std::nullopt;
  }
  return std::move(*body);
}

bool check_model(const Model& model, const std::string& name, const ExchangePointer& exchange) {
  if (name.empty() || std::ranges::count(model.names, name) > 0 || find_adapter(model, name) >= 0)
    return true;
  exchange->respond(error_response({.status = 404,
                                    .message = fmt::format("there is no model \"{}\" here, but {}",
                                                           name, fmt::join(model.names, ", ")),
                                    .param = "model",
                                    .code = "model_not_found"}));
  return false;
}

http::Options App::http_options(http::Limits limits, std::vector<std::string> cors_origins,
                                http::ApiKeys keys) {
  http::Options options;
  options.limits = limits;
  options.cors_origins = std::move(cors_origins);
  options.keys = std::move(keys);
  options.error = [](int status, const std::string& message) {
    return error_response(status, message);
  };
  options.gate = [this](const http::Request&,
                        const http::Route& route) -> std::optional<http::Response> {
    if (!route.needs_model) return std::nullopt;
    if (const auto error = unavailable()) return error_response(*error);
    return std::nullopt;
  };
  options.on_served = [this](const http::Served& served) {
    const http::Request& request = *served.request;
    const std::string route = served.route != nullptr ? served.route->pattern : "other";
    metrics_.count_request(route, request.method, served.status);
    http::LogFields fields = {{"id", request.id},
                              {"remote", request.remote},
                              {"method", request.method},
                              {"path", request.path},
                              {"status", static_cast<int64_t>(served.status)},
                              {"seconds", served.seconds},
                              {"bytes", static_cast<int64_t>(served.bytes)}};
    if (served.gone) fields.emplace_back("gone", std::string("client"));
    for (const auto& [key, value] : served.notes) fields.emplace_back(key, value);
    http::log_event("request", fields);
  };
  return options;
}

}  // namespace ringkeep::openai
