// GET /openapi.json: what the server takes and gives, from the same declarations that read
// requests.
#include "server/openai/app.h"

namespace ringkeep::openai {

void describe_token_fields(Json& schemas, const Defaults& defaults);  // token_routes.cpp

namespace {

Json reference(const std::string& name) { return {{"$ref", "#/components/schemas/" + name}}; }

Json object_schema(std::initializer_list<std::pair<const char*, const char*>> members) {
  Json properties = Json::object(), required = Json::array();
  for (const auto& [name, type] : members) {
    properties[name] = *type == '\0' ? Json::object() : Json{{"type", type}};
    required.push_back(name);
  }
  return {{"type", "object"}, {"properties", properties}, {"required", required}};
}

Json content(const Json& schema, const char* type = "application/json") {
  return Json{{type, {{"schema", schema}}}};
}

// The answers that a route may give beside its own.
Json with_errors(Json answers, std::initializer_list<int> statuses) {
  for (const int status : statuses)
    answers[std::to_string(status)] = {{"description", http::reason_phrase(status)},
                                       {"content", content(reference("Error"))}};
  return answers;
}

Json get_route(const std::string& id, const char* summary, Json answer, bool needs_model) {
  Json answers = {{"200", {{"description", summary}, {"content", std::move(answer)}}}};
  Json route = {{"operationId", id}, {"summary", summary}};
  route["responses"] = needs_model ? with_errors(answers, {401, 503}) : with_errors(answers, {401});
  return Json{{"get", route}};
}

Json post_route(const std::string& id, const char* summary, const std::string& request,
                Json answer) {
  Json answers = {{"200", {{"description", "The answer."}, {"content", std::move(answer)}}}};
  return Json{
      {"post",
       {{"operationId", id},
        {"summary", summary},
        {"requestBody", {{"required", true}, {"content", content(reference(request))}}},
        {"responses", with_errors(answers, {400, 401, 404, 408, 413, 415, 429, 500, 503})}}}};
}

template <typename T>
Json request_schema(const Defaults& defaults) {
  T request;
  FieldSchema schema;
  visit(schema, request, defaults);
  return schema.schema();
}

}  // namespace

Json openapi_json(const Defaults& defaults) {
  Json schemas = Json::object();
  schemas["Error"] = {{"type", "object"},
                      {"properties",
                       {{"error",
                         {{"type", "object"},
                          {"properties",
                           {{"message", {{"type", "string"}}},
                            {"type", {{"type", "string"}}},
                            {"param", {{"type", {"string", "null"}}}},
                            {"code", {{"type", {"string", "null"}}}}}},
                          {"required", Json::array({"message", "type", "param", "code"})}}},
                        {"status", {{"type", "string"}}}}},
                      {"required", Json::array({"error"})}};
  schemas["ChatRequest"] = request_schema<ChatFields>(defaults);
  schemas["CompletionRequest"] = request_schema<CompletionFields>(defaults);
  describe_token_fields(schemas, defaults);
  schemas["Reply"] = object_schema({{"id", "string"},
                                    {"object", "string"},
                                    {"created", "integer"},
                                    {"model", "string"},
                                    {"system_fingerprint", "string"},
                                    {"choices", "array"},
                                    {"usage", "object"}});
  schemas["Model"] = object_schema(
      {{"id", "string"}, {"object", "string"}, {"created", "integer"}, {"owned_by", "string"}});
  schemas["Models"] = object_schema({{"object", "string"}, {"data", "array"}});
  schemas["Tokens"] =
      object_schema({{"tokens", "array"}, {"count", "integer"}, {"max_model_len", "integer"}});
  schemas["Text"] = object_schema({{"content", "string"}, {"prompt", "string"}});
  schemas["Health"] = object_schema({{"status", "string"}});
  schemas["Kv"] =
      object_schema({{"groups", "array"}, {"sequences", "array"}, {"totals", "object"}});

  Json reply = content(reference("Reply"));
  // Some readers hold each event to the schema, others the text of them all.
  const Json event = {{"type", "object"},
                      {"properties", {{"data", {{"type", "string"}}}}},
                      {"required", Json::array({"data"})}};
  reply["text/event-stream"] = {
      {"schema",
       {{"description", "Events whose data is a chunk; the last one's is [DONE]."},
        {"anyOf", Json::array({event, Json{{"type", "string"}}})}}}};
  Json paths = Json::object();
  paths["/v1/chat/completions"] =
      post_route("chat", "The next message of a chat.", "ChatRequest", reply);
  paths["/v1/completions"] =
      post_route("complete", "A continuation of a text.", "CompletionRequest", reply);
  paths["/tokenize"] = post_route("tokenize", "The token ids of a text or a chat.",
                                  "TokenizeRequest", content(reference("Tokens")));
  paths["/detokenize"] = post_route("detokenize", "The text of token ids.", "DetokenizeRequest",
                                    content(reference("Text")));
  paths["/v1/models"] =
      get_route("models", "The names that are served.", content(reference("Models")), true);
  Json model = get_route("model", "One of them.", content(reference("Model")), true);
  model["get"]["parameters"] = Json::array(
      {{{"name", "id"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}}});
  model["get"]["responses"] = with_errors(model["get"]["responses"], {404});
  paths["/v1/models/{id}"] = std::move(model);
  paths["/kv"] = get_route("kv", "The live cache.", content(reference("Kv")), true);
  paths["/metrics"] = get_route("metrics", "Prometheus metrics.",
                                content({{"type", "string"}}, "text/plain"), false);
  paths["/openapi.json"] =
      get_route("openapi", "This description.", content({{"type", "object"}}), false);
  Json health = get_route("health", "Whether a request sent now would be served.",
                          content(reference("Health")), true);
  health["get"]["security"] = Json::array();
  paths["/health"] = std::move(health);

  Json schemes = {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}}};
  return {{"openapi", "3.1.0"},
          {"info", {{"title", "ringkeep"}, {"version", "1"}}},
          {"paths", std::move(paths)},
          {"components", {{"schemas", std::move(schemas)}, {"securitySchemes", schemes}}},
          {"security", Json::array({Json{{"bearer", Json::array()}}, Json::object()})}};
}

}  // namespace ringkeep::openai
