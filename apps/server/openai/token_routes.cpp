// POST /tokenize and /detokenize, in the shapes of llama.cpp and of vLLM.
#include "base/json_release.h"
#include "prompt/prompt.h"
#include "server/openai/app.h"
#include "server/openai/chat_plan.h"
#include "text/utf8.h"

namespace ringkeep::openai {
namespace {

// Of an answer that takes many times the memory of what was asked for.
constexpr size_t kMaxDetokenized = size_t{1} << 20;
constexpr size_t kMaxPieces = size_t{1} << 18;

struct TokenizeFields {
  std::string model;
  std::optional<std::string> content;
  Json messages;
  bool add_special = true;
  std::optional<bool> parse_special;  // not said: of a text yes, of a chat no
  bool with_pieces = false;
  TemplateFields shown;  // of a chat
};

// A piece as text, or as its bytes where it is none.
Json piece_json(const std::string& bytes) {
  if (text::utf8_valid_prefix(bytes) == bytes.size()) return bytes;
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  return list;
}

void visit(Fields& fields, TokenizeFields& request) {
  fields.text({"model"}, request.model, "A name of /v1/models.");
  fields.other(
      {"content", "prompt"}, {{"type", "string"}},
      [&](const Json& value) {
        if (!value.is_string())
          return fields.fail("content",
                             fmt::format("expected a string, found {}", describe(value)));
        request.content = value.get<std::string>();
      },
      "The text.");
  visit_messages(fields, request.messages, /*required=*/false);  // in place of a text
  fields.boolean({"add_special", "add_special_tokens"}, request.add_special,
                 "Add BOS or EOS where the model wants them.");
  fields.other(
      {"parse_special"}, {{"type", "boolean"}},
      [&](const Json& value) {
        if (!value.is_boolean())
          return fields.fail("parse_special",
                             fmt::format("expected true or false, found {}", describe(value)));
        request.parse_special = value.get<bool>();
      },
      "Control tokens that are written in the text become their ids; of messages: default false.");
  fields.boolean({"with_pieces", "return_token_strs"}, request.with_pieces,
                 "Tell the text of each token.");
  visit_template(fields, request.shown);
}

struct DetokenizeFields {
  std::string model;
  std::vector<int32_t> tokens;
};

void visit(Fields& fields, DetokenizeFields& request, int64_t vocab_size) {
  fields.text({"model"}, request.model, "A name of /v1/models.");
  fields.other(
      {"tokens"}, {{"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}}}},
      [&](const Json& value) {
        if (within(fields, "tokens", value.size(), kMaxDetokenized, "ids"))
          request.tokens = read_token_ids(fields, "tokens", value, vocab_size);
      },
      "Token ids.");
  fields.required("tokens");
}

}  // namespace

void describe_token_fields(Json& schemas, const Defaults& defaults) {
  TokenizeFields tokenize;
  FieldSchema first;
  visit(first, tokenize);
  schemas["TokenizeRequest"] = first.schema();
  DetokenizeFields detokenize;
  FieldSchema second;
  visit(second, detokenize, defaults.vocab_size);
  schemas["DetokenizeRequest"] = second.schema();
}

void handle_tokenize(App& app, const ExchangePointer& exchange) {
  const auto model = app.model();
  auto body = read_body(exchange);
  if (!body) return;
  TokenizeFields request;
  const JsonRelease release_body(*body), release_messages(request.messages),
      release_tools(request.shown.tools), release_variables(request.shown.variables);
  FieldReader reader(*body);
  visit(reader, request);
  const bool chat = !request.messages.is_null();
  if (chat == request.content.has_value())
    reader.fail("content", "expected one of content, prompt and messages");
  if (const auto error = reader.finish()) return exchange->respond(error_response(*error));
  if (!check_model(*model, request.model, exchange)) return;
  if (model->tokenizer == nullptr)
    return exchange->respond(
        error_response(bad_field("content", "the model has no tokenizer", "no_tokenizer")));
  std::vector<int32_t> tokens;
  if (chat) {
    if (!model->chat_template)
      return exchange->respond(error_response(
          bad_field("messages", "the model has no chat template", "no_chat_template")));
    if (const auto error = check_tools(*model, request.shown))
      return exchange->respond(error_response(*error));
    fit_developer(model->template_source, request.messages);
    auto built =
        prompt::build_chat_prompt(*model->tokenizer, *model->chat_template, request.messages,
                                  {.tools = request.shown.tools,
                                   .add_generation_prompt = request.shown.add_generation_prompt,
                                   .variables = request.shown.variables,
                                   .parse_special = request.parse_special.value_or(false)});
    if (!built.ok())
      return exchange->respond(error_response(from_error(built.error(), "messages")));
    tokens = std::move(built->tokens);
  } else {
    tokens = model->tokenizer->encode(*request.content,
                                      {.add_special = request.add_special,
                                       .parse_special = request.parse_special.value_or(true)});
  }
  if (request.with_pieces && tokens.size() > kMaxPieces)
    return exchange->respond(error_response(bad_field(
        "with_pieces", fmt::format("with_pieces: at most {} tokens are told with their text, found "
                                   "{}",
                                   kMaxPieces, tokens.size()))));
  Json answer = {{"count", tokens.size()}, {"max_model_len", model->plan->max_length()}};
  Json ids = tokens;
  const JsonRelease release_answer(answer), release_ids(ids);
  answer["tokens"] = std::move(ids);
  if (request.with_pieces) {
    Json pieces = Json::array();
    const JsonRelease release_pieces(pieces);
    for (const int32_t token : tokens)
      pieces.push_back(
          {{"id", token}, {"piece", piece_json(model->tokenizer->bytes(token, true))}});
    answer["pieces"] = std::move(pieces);
  }
  exchange->respond({.body = dump(answer)});
}

void handle_detokenize(App& app, const ExchangePointer& exchange) {
  const auto model = app.model();
  auto body = read_body(exchange);
  if (!body) return;
  const JsonRelease release_body(*body);
  DetokenizeFields request;
  FieldReader reader(*body);
  visit(reader, request,
        model->tokenizer != nullptr ? model->tokenizer->size() : model->defaults.vocab_size);
  if (const auto error = reader.finish()) return exchange->respond(error_response(*error));
  if (!check_model(*model, request.model, exchange)) return;
  if (model->tokenizer == nullptr)
    return exchange->respond(
        error_response(bad_field("tokens", "the model has no tokenizer", "no_tokenizer")));
  const std::string text = model->tokenizer->decode(request.tokens, /*special=*/true);
  exchange->respond({.body = dump({{"content", text}, {"prompt", text}})});
}

}  // namespace ringkeep::openai
