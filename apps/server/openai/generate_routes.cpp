// POST /v1/chat/completions and /v1/completions.
#include "base/json_release.h"
#include "prompt/message_ends.h"
#include "prompt/prompt.h"
#include "server/openai/chat_plan.h"
#include "server/openai/chat_reply.h"
#include "server/openai/run.h"

namespace ringkeep::openai {
namespace {

// A chat whose ends of messages are looked for, to keep snapshots of: each end costs a rendering of
// all before it. Longer chats have those of every 1,024 tokens.
constexpr size_t kMostWithEnds = 512;                    // messages
constexpr size_t kMostTextWithEnds = size_t{512} << 10;  // bytes

// What a request holds of JSON, given back without asking for memory.
void release(CompletionFields& fields) { release_json(fields.rule.schema); }
void release(ChatFields& fields) {
  release_json(fields.rule.schema);
  release_json(fields.messages);
  release_json(fields.shown.tools);
  release_json(fields.tool_choice);
  release_json(fields.shown.variables);
}

template <typename T>
class FieldsRelease {
 public:
  explicit FieldsRelease(T& fields) : fields_(fields) {}
  FieldsRelease(const FieldsRelease&) = delete;
  FieldsRelease& operator=(const FieldsRelease&) = delete;
  ~FieldsRelease() { release(fields_); }

 private:
  T& fields_;
};

// Reads the fields of a body, finds model and adapter; answers and gives nothing on an error.
template <typename T>
std::optional<T> read_fields(const Model& model, const ExchangePointer& exchange) {
  auto body = read_body(exchange);
  if (!body) return std::nullopt;
  const JsonRelease release_body(*body);
  T request;
  const FieldsRelease release_fields(request);
  FieldReader reader(*body);
  visit(reader, request, model.defaults);
  if (const auto error = reader.finish()) {
    exchange->respond(error_response(*error));
    return std::nullopt;
  }
  if (!check_model(model, request.model, exchange)) return std::nullopt;
  const AdapterChoice choice = choose_adapter(model, request);
  if (choice.error) {
    exchange->respond(error_response(*choice.error));
    return std::nullopt;
  }
  request.adapter = choice.adapter;
  return std::optional<T>(std::move(request));
}

RunPlan make_plan(std::shared_ptr<const Model> model, const ExchangePointer& exchange,
                  const GenerationFields& fields) {
  RunPlan plan;
  plan.name = model->names.front();
  if (fields.adapter.value_or(-1) >= 0)
    plan.name = model->adapters[static_cast<size_t>(*fields.adapter)].name;
  const int used = fields.adapter.value_or(model->adapter);
  plan.fingerprint =
      used >= 0 ? model->adapters[static_cast<size_t>(used)].fingerprint : model->fingerprint;
  plan.model = std::move(model);
  plan.exchange = exchange;
  plan.arrived = std::chrono::steady_clock::now();
  plan.stream = fields.stream;
  plan.include_usage = fields.include_usage || fields.usage_in_chunks;
  plan.usage_in_chunks = fields.usage_in_chunks;
  return plan;
}

ApiError no_tokenizer(const std::string& param) {
  return bad_field(param,
                   fmt::format("{}: the model has no tokenizer: only prompts of token ids can be "
                               "served, and nothing of their text",
                               param),
                   "no_tokenizer");
}

// A field that cannot be had without a tokenizer.
std::optional<std::string> field_of_text(const CompletionFields& fields) {
  if (fields.rule.kind != OutputRule::Kind::none) return fields.rule.param;
  if (fields.top_logprobs >= 0) return "logprobs";
  if (!fields.stop.empty()) return "stop";
  if (fields.echo) return "echo";
  for (const auto& prompt : fields.prompts)
    if (std::holds_alternative<std::string>(prompt)) return "prompt";
  return std::nullopt;
}

ApiError no_template(const Model& model) {
  if (!model.template_problem.empty())
    return {
        .message = fmt::format("the model's chat template cannot be used ({}): start the server "
                               "with --chat-template, or use /v1/completions",
                               model.template_problem),
        .param = "messages",
        .code = "no_chat_template"};
  return {.message =
              "the model has no chat template: start the server with --chat-template FILE (a Jinja "
              "template) or one of its names (see docs/serving.md), or use /v1/completions",
          .param = "messages",
          .code = "no_chat_template"};
}

// What the engine would say, before anything is made of such a prompt: copies for n replies,
// places of snapshots, grammars.
std::optional<ApiError> too_long(const Model& model, size_t tokens, int64_t max_tokens,
                                 const std::string& param) {
  const int64_t context = model.plan->max_length();
  if (static_cast<int64_t>(tokens) + (max_tokens != 0 ? 1 : 0) <= context) return std::nullopt;
  return from_error(input_error("the prompt has {} tokens, the context (--ctx) holds {}{}", tokens,
                                context, max_tokens != 0 ? " with the reply" : ""),
                    param);
}

// More replies than can ever be open at once would be sent away each time they come.
std::optional<ApiError> too_many(const App& app, int64_t replies, const std::string& param) {
  const int64_t open = app.settings().max_open;
  const int64_t most = open > 0 ? std::min(kMaxChoices, open) : kMaxChoices;
  if (replies <= most) return std::nullopt;
  return bad_field(param, fmt::format("{}: {} replies in all, at most {} are served at once", param,
                                      replies, most));
}

// Each reply is held to a grammar of its own.
void constrain(std::vector<engine::Request>& requests, const MatcherPointer& start) {
  if (start == nullptr) return;
  for (engine::Request& request : requests)
    request.constraint = std::make_shared<grammar::Matcher>(*start);
}

}  // namespace

void handle_chat(App& app, const ExchangePointer& exchange) {
  const auto model = app.model();
  auto fields = read_fields<ChatFields>(*model, exchange);
  if (!fields) return;
  const FieldsRelease release_fields(*fields);
  if (const auto error = too_many(app, fields->n, "n"))
    return exchange->respond(error_response(*error));
  if (model->tokenizer == nullptr)
    return exchange->respond(error_response(no_tokenizer("messages")));
  if (!model->chat_template) return exchange->respond(error_response(no_template(*model)));
  fit_developer(model->template_source, fields->messages);
  ChatPlan reply;
  const JsonRelease release_tools(reply.tools);
  if (const auto error = plan_tools(*model, *fields, reply))
    return exchange->respond(error_response(*error));
  prompt::ChatOptions options{.tools = reply.tools,
                              .add_generation_prompt = fields->shown.add_generation_prompt,
                              .variables = fields->shown.variables,
                              .parse_special = fields->parse_special,
                              .context = model->plan->max_length()};
  const JsonRelease release_shown(options.tools), release_variables(options.variables);
  auto built = prompt::build_chat_prompt(*model->tokenizer, *model->chat_template, fields->messages,
                                         options);
  if (!built.ok()) return exchange->respond(error_response(from_error(built.error(), "messages")));
  if (const auto error = too_long(*model, built->tokens.size(), fields->max_tokens, "messages"))
    return exchange->respond(error_response(*error));
  if (const auto error = plan_reply(*model, *fields, built->text, reply))
    return exchange->respond(error_response(*error));

  RunPlan plan = make_plan(model, exchange, *fields);
  plan.prefix = "chatcmpl-";
  plan.object = "chat.completion";
  plan.chunk_object = "chat.completion.chunk";
  plan.prompt_param = "messages";
  engine::Request base = base_request(*fields);
  base.tokens = built->tokens;
  if (!reply.control_marks.empty()) base.control = engine::ControlText::marked;
  base.stop.insert(base.stop.end(), reply.stop.begin(), reply.stop.end());
  if (!fields->ignore_eos)
    base.stop_tokens.insert(base.stop_tokens.end(), reply.stop_tokens.begin(),
                            reply.stop_tokens.end());
  if (fields->messages.size() <= kMostWithEnds && built->text.size() <= kMostTextWithEnds)
    base.snapshot_at = prompt::message_ends(*model->tokenizer, *model->chat_template,
                                            fields->messages, options, *built);
  add_requests(plan, base, *fields);
  constrain(plan.requests, reply.constraint);
  for (int64_t i = 0; i < fields->n; ++i)
    plan.shapes.push_back(make_chat_choice({.index = i,
                                            .stream = fields->stream,
                                            .logprobs = fields->top_logprobs >= 0,
                                            .token_ids = fields->return_token_ids,
                                            .tokenizer = model->tokenizer,
                                            .prompt_tokens = base.tokens},
                                           reply));
  start_run(app, std::move(plan));
}

void handle_completion(App& app, const ExchangePointer& exchange) {
  const auto model = app.model();
  auto fields = read_fields<CompletionFields>(*model, exchange);
  if (!fields) return;
  const FieldsRelease release_fields(*fields);
  if (model->tokenizer == nullptr)
    if (const auto param = field_of_text(*fields))
      return exchange->respond(error_response(no_tokenizer(*param)));
  for (const CompletionFields::Prompt& prompt : fields->prompts)
    if (const auto* text = std::get_if<std::string>(&prompt))
      if (const auto size =
              prompt::check_text_size(*model->tokenizer, text->size(), model->plan->max_length());
          !size.ok())
        return exchange->respond(error_response(from_error(size.error(), "prompt")));
  MatcherPointer constraint;
  if (fields->rule.kind != OutputRule::Kind::none) {
    const OutputRule& rule = fields->rule;
    const Json key = {static_cast<int>(rule.kind), rule.schema, rule.text, rule.choices};
    auto matcher = model->constraints->matcher(dump(key), [&] { return rule_grammar(rule); });
    if (!matcher.ok())
      return exchange->respond(
          error_response(bad_field(rule.param, rule.param + ": " + matcher.error().message)));
    constraint = *matcher;
  }
  const int64_t replies = std::max(fields->n, fields->best_of);
  const int64_t choices = static_cast<int64_t>(fields->prompts.size()) * replies;
  if (const auto error = too_many(app, choices, replies > fields->n ? "best_of" : "n"))
    return exchange->respond(error_response(*error));

  RunPlan plan = make_plan(model, exchange, *fields);
  plan.prefix = "cmpl-";
  plan.object = plan.chunk_object = "text_completion";
  plan.prompt_param = "prompt";
  for (size_t i = 0; i < fields->prompts.size(); ++i) {
    engine::Request base = base_request(*fields);
    std::string echo;
    if (fields->echo) base.prompt_logprobs = fields->top_logprobs;
    const auto* ids = std::get_if<std::vector<int32_t>>(&fields->prompts[i]);
    if (ids != nullptr) {
      base.tokens = *ids;
      if (fields->echo) echo = model->tokenizer->decode(*ids);
    } else {
      const std::string& text = std::get<std::string>(fields->prompts[i]);
      base.tokens = model->tokenizer->encode(
          text, {.add_special = fields->add_special_tokens, .parse_special = true});
      if (fields->echo) echo = text;
    }
    if (const auto error =
            too_long(*model, base.tokens.size(), fields->max_tokens, plan.prompt_param))
      return exchange->respond(error_response(*error));
    add_requests(plan, base, *fields);
    for (int64_t k = 0; k < replies; ++k)
      plan.shapes.push_back(
          make_completion_choice({.index = static_cast<int64_t>(plan.shapes.size()),
                                  .stream = fields->stream,
                                  .logprobs = fields->top_logprobs >= 0,
                                  .token_ids = fields->return_token_ids,
                                  .control = !fields->skip_special_tokens,
                                  .tokenizer = model->tokenizer,
                                  .echo = echo,
                                  .echo_control = !ids,
                                  .echo_logprobs = base.prompt_logprobs >= 0,
                                  .prompt_tokens = base.tokens}));
  }
  constrain(plan.requests, constraint);
  start_run(app, std::move(plan));
}

}  // namespace ringkeep::openai
