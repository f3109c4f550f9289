#include "cli/foreign_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace ringkeep::cli {
namespace {

struct Advice {
  const char* text;
  std::vector<std::string_view> flags;
};

// As docs/migrating.md has them; a test compares.
const std::vector<Advice>& advice() {
  static const std::vector<Advice> all = {
      {"the model is the first argument, after the command", {"-m", "--model"}},
      {"org/name is the first argument, from the local Hugging Face cache; nothing is downloaded",
       {"-hf", "-hfr", "--hf-repo"}},
      {"--kv-key-bits 8 for q8_0, 4 for q4_0; --kv-bits for keys and values",
       {"-ctk", "--cache-type-k"}},
      {"--kv-value-bits 8 for q8_0, 4 for q4_0; --kv-bits for keys and values",
       {"-ctv", "--cache-type-v"}},
      {"--kv-bits 8 for fp8", {"--kv-cache-dtype"}},
      {"--ubatch-size", {"-ub"}},
      {"leave it out; --chunk is the rows of a step", {"-b", "--batch-size"}},
      {"--chunk, the rows of a step", {"--max-num-batched-tokens"}},
      {"--kv-memory BYTES, which all sequences share",
       {"-kvu", "--kv-unified", "--kv-cache-memory-bytes", "--gpu-memory-utilization"}},
      {"--max-kv-size N --keep K", {"--context-shift"}},
      {"leave it out; a window can be rolled back without", {"--swa-full"}},
      {"--prefix-cache-bytes BYTES",
       {"-cram", "--cache-ram", "--ctx-checkpoints", "--prompt-cache-size",
        "--prompt-cache-bytes"}},
      {"leave it out; prefixes are shared unless --prefix-cache-bytes is 0",
       {"--enable-prefix-caching"}},
      {"--prefix-cache-bytes 0", {"--no-enable-prefix-caching"}},
      {"`ringkeep run --prompt-cache-file`; not in the server", {"--slot-save-path"}},
      {"--parallel", {"--decode-concurrency", "--prompt-concurrency"}},
      {"--chat-template FILE", {"--chat-template-file"}},
      {"chat_template_kwargs in each request",
       {"--chat-template-kwargs", "--chat-template-args", "--default-chat-template-kwargs"}},
      {"leave it out; templates are always Jinja", {"--jinja"}},
      {"--reasoning-parser", {"--reasoning-format"}},
      {"leave it out; the format is found from the chat template, or given with "
       "--tool-call-parser",
       {"--enable-auto-tool-choice"}},
      {"--cors-origin", {"--allowed-origins", "--cors-origins"}},
      {"a proxy does TLS (docs/deploy.md)",
       {"--ssl-key-file", "--ssl-cert-file", "--ssl-keyfile", "--ssl-certfile"}},
      {"leave it out; /metrics and /kv are always there", {"--metrics", "--slots"}},
      {"-v, -q or --log-format", {"--log-level"}},
      {"--lora FOLDER=SCALE", {"--lora-scaled"}},
      {"--adapter NAME=PATH for each", {"--lora-modules"}},
      {"leave it out; --adapter NAME=PATH is enough", {"--enable-lora"}},
      {"leave it out; weights stay as they are, and --weight-bits quantizes dense ones",
       {"--quantization", "--dtype"}},
      {"leave it out; it is always so",
       {"--enable-chunked-prefill", "--enable-prompt-tokens-details"}},
      {"leave it out; penalties look at all tokens", {"--repeat-last-n"}},
      {"leave it out; there is no GPU yet",
       {"-ngl", "--gpu-layers", "--n-gpu-layers", "-fa", "--flash-attn", "-sm", "--split-mode",
        "-ts", "--tensor-split", "-mg", "--main-gpu", "-dev", "--device", "--enforce-eager", "-tp",
        "--tensor-parallel-size"}},
      {"not supported: speculative decoding",
       {"-md", "--model-draft", "--draft-model", "--num-draft-tokens", "--speculative-config"}},
      {"not supported: images", {"--mmproj"}},
      {"not supported: embeddings and ranks",
       {"--embedding", "--embeddings", "--rerank", "--reranking"}},
      {"not for all requests: grammar or response_format in each", {"--grammar", "--json-schema"}},
      {"not supported", {"--pipeline"}},
  };
  return all;
}

const char* advice_for(std::string_view flag) {
  for (const Advice& entry : advice())
    for (const std::string_view known : entry.flags)
      if (flag == known) return entry.text;
  return nullptr;
}

}  // namespace

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const auto found =
      app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

std::vector<std::string> foreign_flags(const CLI::App& app,
                                       const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;  // in the end the innermost: "cache check"
  for (const std::string& argument : arguments) {
    const CLI::App* inner = find_command(*command, argument);
    if (inner == nullptr) break;
    command = inner;
  }
  std::vector<std::string> lines;
  if (command == &app) return lines;
  for (const std::string& argument : arguments) {
    const std::string flag = argument.substr(0, argument.find('='));
    const char* text = advice_for(flag);
    if (text == nullptr || command->get_option_no_throw(flag) != nullptr) continue;
    std::string line = fmt::format("{}: {}", flag, text);
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace ringkeep::cli
