#include "cli/chat.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>

#include "base/mapped_file.h"
#include "cli/generate.h"
#include "cli/reply_view.h"
#include "prompt/named_templates.h"
#include "prompt/prompt.h"

namespace ringkeep::cli {
namespace {

constexpr size_t kTemplateLimit = size_t{1} << 22;
constexpr const char* kCommands =
    "/clear starts anew, /help shows this, /exit or Ctrl-D ends, Ctrl-C stops a reply.";

// "/word" at the beginning of a line: a command, whether there is one of this name or not. A path
// has more in it.
std::string command_of(const std::string& line) {
  if (!line.starts_with('/')) return "";
  const auto end = std::find_if_not(line.begin() + 1, line.end(), [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0;
  });
  const bool word = end > line.begin() + 1 && (end == line.end() || *end == ' ');
  return word ? std::string(line.begin(), end) : "";
}

}  // namespace

Json first_messages(const std::string& system) {
  Json messages = Json::array();
  if (!system.empty()) messages.push_back(Json{{"role", "system"}, {"content", system}});
  return messages;
}

Result<std::string> chat_template_source(const std::string& flag) {
  if (flag.empty()) return std::string();
  if (auto named = prompt::named_template(flag)) return *named;
  if (flag.find("{{") != flag.npos || flag.find("{%") != flag.npos)  // as mlx_lm.server takes it
    return input_error("--chat-template: expected a file or a name ({}), found a template's text",
                       prompt::kNamedTemplates);
  std::error_code ignored;
  if (!std::filesystem::exists(flag, ignored))
    return input_error("--chat-template {}: no such file, and no template of this name ({})", flag,
                       prompt::kNamedTemplates);
  std::string source = RK_TRY(read_text_input(flag, kTemplateLimit));
  if (source.empty()) return input_error("{}: the chat template is empty", flag);
  return source;
}

Result<std::optional<text::ChatTemplate>> load_chat_template(const TokenizerData& data,
                                                             const std::string& flag) {
  const std::string source = flag.empty() ? data.chat_template : RK_TRY(chat_template_source(flag));
  if (source.empty()) return std::optional<text::ChatTemplate>();
  auto parsed = text::ChatTemplate::parse(source);
  if (!parsed.ok())
    return input_error("{}: {}", flag.empty() ? "the model's chat template" : flag,
                       parsed.error().message);
  return std::optional<text::ChatTemplate>(std::move(*parsed));
}

Result<std::vector<int32_t>> chat(engine::Engine& engine, const text::ChatTemplate* chat_template,
                                  const std::string& system, engine::Request base) {
  print_note("{} {}",
             chat_template != nullptr
                 ? "Chat."
                 : "The model has no chat template: each line is continued as plain text.",
             kCommands);
  Json messages = first_messages(system);
  std::vector<int32_t> last;
  for (std::string line;;) {
    RK_TRY(print_now("> "));
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    if (const std::string command = command_of(line); !command.empty()) {
      if (command == "/exit" || command == "/quit") break;
      if (command == "/clear")
        messages = first_messages(system);
      else if (command == "/help")
        print_note("{}", kCommands);
      else
        print_note("there is no command {}: {} A blank before it makes it text.", command,
                   kCommands);
      continue;
    }
    if (chat_template != nullptr) messages.push_back(Json{{"role", "user"}, {"content", line}});
    auto prompt = chat_template != nullptr
                      ? prompt::build_chat_prompt(*engine.tokenizer(), *chat_template, messages,
                                                  {.context = engine.plan().max_length()})
                      : prompt::build_completion_prompt(*engine.tokenizer(), line,
                                                        engine.plan().max_length());
    engine::Request request = base;
    ++base.sampling.seed;  // the same line again has another reply
    prompt::Prompt built = RK_TRY(std::move(prompt));
    const std::string prompt_text = std::move(built.text);
    request.tokens = std::move(built.tokens);
    std::vector<int32_t> tokens = request.tokens;
    ReplyView view(chat_template, prompt_text, *engine.tokenizer(), request);
    Result<Generation> reply = generate(engine, std::move(request), [&](const std::string& text) {
      return view.push(text, /*print=*/true);
    });
    if (!reply.ok()) {
      // A conversation that has outgrown the context can still be cleared.
      print_note("ringkeep: error: {}", reply.error().message);
      if (chat_template != nullptr) messages.erase(messages.size() - 1);
      continue;
    }
    RK_TRY(view.finish(*reply, /*print=*/true));
    RK_TRY(print_now("\n"));
    print_note("{}", generation_summary(engine, *reply));
    last = std::move(tokens);
    last.insert(last.end(), reply->tokens.begin(), reply->tokens.end());
    if (chat_template != nullptr)
      messages.push_back(Json{{"role", "assistant"}, {"content", reply->text}});
  }
  RK_TRY(print_now("\n"));
  return last;
}

}  // namespace ringkeep::cli
