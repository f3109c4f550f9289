#include "cli/chat.h"

#include <cstdio>
#include <iostream>

#include "base/mapped_file.h"
#include "cli/generate.h"

namespace ringkeep::cli {
namespace {

constexpr size_t kTemplateLimit = size_t{1} << 22;

std::string piece_or_empty(const text::Tokenizer& tokenizer, int32_t id) {
  return id >= 0 ? tokenizer.piece(id) : "";
}

Json first_messages(const std::string& system) {
  Json messages = Json::array();
  if (!system.empty()) messages.push_back(Json{{"role", "system"}, {"content", system}});
  return messages;
}

}  // namespace

Result<std::optional<ChatFormat>> ChatFormat::load(const TokenizerData& data,
                                                   const std::string& file) {
  const std::string source =
      file.empty() ? data.chat_template : RK_TRY(read_text_file(file, kTemplateLimit));
  if (source.empty() && file.empty()) return std::optional<ChatFormat>();
  return std::optional<ChatFormat>(ChatFormat(RK_TRY(text::ChatTemplate::parse(source))));
}

Result<std::vector<int32_t>> ChatFormat::encode(const text::Tokenizer& tokenizer,
                                                const Json& messages) const {
  const Json context = {
      {"messages", messages},
      {"add_generation_prompt", true},
      {"bos_token", piece_or_empty(tokenizer, tokenizer.data().bos)},
      {"eos_token", piece_or_empty(tokenizer, tokenizer.data().eos)},
  };
  const std::string text = RK_TRY(template_.render(context));
  return tokenizer.encode(text, {.add_special = false, .parse_special = true});
}

Result<int> chat(engine::Engine& engine, const ChatFormat* format, const std::string& system,
                 engine::Request base) {
  fmt::print(stderr, "{} /clear starts anew, /exit or Ctrl-D ends, Ctrl-C stops a reply.\n",
             format != nullptr
                 ? "Chat."
                 : "The model has no chat template: each line is continued as plain text.");
  Json messages = first_messages(system);
  for (std::string line;;) {
    fmt::print("> ");
    std::fflush(stdout);
    if (!std::getline(std::cin, line) || line == "/exit" || line == "/quit") break;
    if (line.empty()) continue;
    if (line == "/clear") {
      messages = first_messages(system);
      continue;
    }
    engine::Request request = base;
    if (format != nullptr) {
      messages.push_back(Json{{"role", "user"}, {"content", line}});
      request.tokens = RK_TRY(format->encode(*engine.tokenizer(), messages));
    } else {
      request.tokens = engine.tokenizer()->encode(line);
    }
    Result<Generation> reply = generate(engine, std::move(request), [](const std::string& text) {
      fmt::print("{}", text);
      std::fflush(stdout);
    });
    if (!reply.ok()) {
      // A conversation that has outgrown the context can still be cleared.
      fmt::print(stderr, "ringkeep: error: {}\n", reply.error().message);
      if (format != nullptr) messages.erase(messages.size() - 1);
      continue;
    }
    fmt::print("\n");
    std::fflush(stdout);
    fmt::print(stderr, "{}\n", generation_summary(engine, *reply));
    if (format != nullptr)
      messages.push_back(Json{{"role", "assistant"}, {"content", reply->text}});
  }
  fmt::print("\n");
  return 0;
}

}  // namespace ringkeep::cli
