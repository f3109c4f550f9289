#include "prompt/prompt.h"

#include "base/json_release.h"
#include "prompt/fit_messages.h"
#include "prompt/plain_text.h"

namespace ringkeep::prompt {
namespace {

using Json = nlohmann::ordered_json;

Error usage(std::string message) { return Error{ErrorKind::usage, std::move(message)}; }

Status check_part(const Json& part, size_t message, size_t index) {
  const std::string where = fmt::format("messages[{}].content[{}]", message, index);
  if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) {
    return usage(
        fmt::format("{}: expected an object with a type, found {}", where, part.type_name()));
  }
  const std::string& type = part["type"].get_ref<const std::string&>();
  if (type.starts_with("image"))
    return usage(fmt::format("{}: this model takes text only, found an image", where));
  if (type != "text")
    return usage(fmt::format("{}: expected type \"text\", found \"{}\"", where, type));
  if (!part.contains("text") || !part["text"].is_string()) {
    return usage(fmt::format("{}.text: expected a string", where));
  }
  return {};
}

Status check_messages(const Json& messages) {
  if (!messages.is_array() || messages.empty())
    return usage("messages: expected an array with a message");
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      return usage(fmt::format("messages[{}]: expected an object with a role, found {}", i,
                               message.type_name()));
    }
    if (!message.contains("content")) continue;
    const Json& content = message["content"];
    if (!content.is_string() && !content.is_null() && !content.is_array()) {
      return usage(
          fmt::format("messages[{}].content: expected a string or an array of parts, found {}", i,
                      content.type_name()));
    }
    if (!content.is_array()) continue;
    for (size_t k = 0; k < content.size(); ++k) {
      if (const Status status = check_part(content[k], i, k); !status) return status;
    }
  }
  return {};
}

std::string piece_of(const text::Tokenizer& tokenizer, int32_t id) {
  return id < 0 || id >= tokenizer.size() ? std::string() : std::string(tokenizer.piece(id));
}

Result<Prompt> encode(const text::Tokenizer& tokenizer, Prompt prompt, bool add_special,
                      int64_t context) {
  RK_TRY(check_text_size(tokenizer, prompt.text.size(), context));
  prompt.tokens = tokenizer.encode(
      prompt.text, {.add_special = add_special, .parse_special = true, .plain = prompt.plain});
  if (prompt.tokens.empty()) return usage("the prompt is empty");
  return prompt;
}

}  // namespace

Result<Prompt> build_chat_prompt(const text::Tokenizer& tokenizer,
                                 const text::ChatTemplate& chat_template, const Json& messages,
                                 const ChatOptions& options) {
  if (const Status status = check_messages(messages); !status) return status.error();
  const TokenizerData& data = tokenizer.data();
  const std::string& source = chat_template.source();
  Json context = {{"messages", fit_messages(source, messages)},
                  {"tools", fit_tools(source, options.tools)},
                  {"documents", nullptr},
                  {"add_generation_prompt", options.add_generation_prompt},
                  {"bos_token", piece_of(tokenizer, data.bos)},
                  {"eos_token", piece_of(tokenizer, data.eos)},
                  {"unk_token", piece_of(tokenizer, data.unk)},
                  {"pad_token", piece_of(tokenizer, data.pad)}};
  const JsonRelease release(context);
  if (options.variables.is_object()) context.update(options.variables);
  std::optional<PlainText> plain;
  if (!options.parse_special)
    plain = RK_TRY(PlainText::mark(tokenizer, chat_template.source(), context));
  Result<std::string> text = chat_template.render(context);
  if (!text.ok()) {
    Error error = text.error();
    if (plain) plain->unmark(error.message);
    return error;
  }
  Prompt prompt{.text = *std::move(text)};
  if (plain) prompt.plain = plain->unmark(prompt.text);
  return encode(tokenizer, std::move(prompt), /*add_special=*/false, options.context);
}

Result<Prompt> build_completion_prompt(const text::Tokenizer& tokenizer, const std::string& text,
                                       int64_t context) {
  if (text.empty()) return usage("the prompt is empty");
  return encode(tokenizer, {.text = text}, /*add_special=*/true, context);
}

Status check_text_size(const text::Tokenizer& tokenizer, size_t bytes, int64_t context) {
  const int64_t fewest = tokenizer.fewest_tokens(bytes);
  if (context == 0 || fewest <= context) return {};
  return input_error(
      "the prompt has {} bytes, which are at least {} tokens (no token has more than {} bytes); "
      "the context (--ctx) holds {}",
      bytes, fewest, tokenizer.longest_token(), context);
}

}  // namespace ringkeep::prompt
