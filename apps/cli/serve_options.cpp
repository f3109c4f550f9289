#include "cli/serve_options.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/mapped_file.h"
#include "cli/numbers.h"
#include "prompt/named_templates.h"

namespace ringkeep::cli {
namespace {

constexpr size_t kKeyFileLimit = 1 << 20;  // bytes
const char* const kServer = "Server";
const char* const kLimits = "Limits";
const char* const kAccess = "Access";

void add_seconds(CLI::App& app, const char* name, double& value, const char* help) {
  add_real(app, name, value, help, 0.01, 86400.0)->type_name("SECONDS")->group(kLimits);
}

void add_bytes(CLI::App& app, const char* name, size_t& value, const char* help) {
  app.add_option(name, value, help)
      ->transform(byte_count({0}))
      ->type_name("BYTES")
      ->capture_default_str()
      ->group(kLimits);
}

// As browsers write it: scheme://host, with a port or without.
std::string check_origin(const std::string& text) {
  const size_t scheme = text.find("://");
  const bool good = text == "*" || text == "null" ||
                    (scheme != text.npos && scheme > 0 && scheme + 3 < text.size() &&
                     text.find_first_of("/?# *", scheme + 3) == text.npos);
  return good ? std::string()
              : fmt::format("expected an origin such as https://chat.example, or *, found \"{}\"",
                            text);
}

Status add_key(http::ApiKeys& keys, const std::string& key, const std::string& source) {
  const bool good =
      !key.empty() && std::ranges::all_of(key, [](char c) { return c > ' ' && c < '\x7f'; });
  if (!good)
    return make_error(ErrorKind::usage,
                      "{}: expected a key of visible ASCII characters without spaces, found {}",
                      source, key.empty() ? "an empty one" : "others");
  keys.add(key);
  return {};
}

}  // namespace

void add_serve_options(CLI::App& app, ServeOptions& options) {
  options.cache.prefix_cache_bytes = -1;
  options.cache.parallel = 4;
  // What OpenAI's API means where a request says nothing.
  options.sampling = {.temperature = 1.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f};
  options.limits.connections = 512;

  app.add_option("--host", options.host, "address to listen on")
      ->capture_default_str()
      ->group(kServer);
  add_integer(app, "--port", options.port, "port; 0: a free one, which is told", 0, 65535)
      ->group(kServer);
  app.add_option("--served-model-name,--alias,-a", options.names,
                 "what requests call the model (repeatable; default: the name of its file)")
      ->type_name("NAME")
      ->check([](const std::string& text) {
        return text.empty() ? std::string("expected a name") : std::string();
      })
      ->allow_extra_args(false)
      ->group(kServer);
  app.add_option("--chat-template", options.chat_template,
                 fmt::format("a Jinja chat template, or one of {}, in place of the model's",
                             prompt::kNamedTemplates))
      ->type_name("FILE|NAME")
      ->group(kServer);
  app.add_option(
         "--tool-call-parser", options.tool_parser,
         "how the model writes tool calls: auto (as its chat template tells), none, hermes, "
         "qwen3_coder, llama3_json, mistral, mistral_args, functiongemma, gemma4, "
         "deepseek_v3, deepseek_v31, harmony")
      ->type_name("NAME")
      ->capture_default_str()
      ->group(kServer);
  app.add_option("--reasoning-parser", options.reasoning_parser,
                 "how it writes its reasoning: auto, none, think, mistral, gemma4, harmony")
      ->type_name("NAME")
      ->capture_default_str()
      ->group(kServer);
  app.add_option("--max-tokens,-n,--n-predict", options.max_tokens,
                 "most tokens of a reply where the request does not say; -1: until the context "
                 "ends (default: -1 for chats, 16 for completions)")
      ->transform(whole_number(-1, INT64_MAX))
      ->type_name("N")
      ->group(kServer);
  app.add_option("--log-format", options.log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str()
      ->group("Output");
  app.add_flag("-q,--quiet", options.quiet, "warnings and errors only")->group("Output");

  app.add_option("--api-key", options.api_keys,
                 "key that requests must carry (repeatable; better in a file or RINGKEEP_API_KEY: "
                 "a command line can be seen by every user of the machine)")
      ->type_name("KEY")
      ->allow_extra_args(false)
      ->group(kAccess);
  app.add_option("--api-key-file", options.api_key_file, "keys, one a line; # begins a comment")
      ->type_name("FILE")
      ->group(kAccess);
  app.add_flag("--allow-unauthenticated", options.allow_unauthenticated,
               "listen beyond this machine without a key")
      ->group(kAccess);
  app.add_option("--cors-origin", options.cors_origins,
                 "origin of web pages that may call the server, or * (repeatable)")
      ->type_name("ORIGIN")
      ->check(check_origin)
      ->allow_extra_args(false)
      ->group(kAccess);

  add_integer(app, "--max-queue", options.max_queue,
              "requests that may wait for a place; more are answered with 429", 0, 1 << 20)
      ->group(kLimits);
  add_integer(app, "--reserve-tokens", options.reserve_tokens,
              "tokens of a reply that a request has a place for when it begins", 1, kMostTokens)
      ->group(kLimits);
  add_integer(app, "--max-connections", options.limits.connections, "connections at the same time",
              1, 1 << 16)
      ->group(kLimits);
  add_bytes(app, "--max-body-bytes", options.limits.body_bytes, "largest body of a request");
  add_bytes(app, "--max-send-buffer", options.limits.send_buffer,
            "most bytes of an answer that wait for a slow reader");
  add_seconds(app, "--idle-timeout", options.limits.idle_timeout,
              "between two requests of a connection");
  add_seconds(app, "--header-timeout", options.limits.header_timeout, "for a whole header");
  add_seconds(app, "--body-timeout", options.limits.body_timeout, "for a whole body");
  add_seconds(app, "--write-timeout", options.limits.write_timeout,
              "in which a client reads nothing of its answer");
  add_seconds(app, "--drain-timeout", options.drain_timeout,
              "for running requests after SIGTERM or Ctrl-C");
  add_seconds(app, "--stall-timeout", options.stall_timeout,
              "without a sign of life of the engine");
}

Result<http::ApiKeys> api_keys(const ServeOptions& options) {
  http::ApiKeys keys;
  for (const std::string& key : options.api_keys) RK_TRY(add_key(keys, key, "--api-key"));
  if (!options.api_key_file.empty()) {
    std::istringstream lines(RK_TRY(read_text_input(options.api_key_file, kKeyFileLimit)));
    bool any = false;
    for (std::string line; std::getline(lines, line);) {
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      if (line.empty() || line.front() == '#') continue;
      RK_TRY(add_key(keys, line, "--api-key-file " + options.api_key_file));
      any = true;
    }
    if (!any) return input_error("--api-key-file {}: it holds no key", options.api_key_file);
  }
  if (const char* key = std::getenv("RINGKEEP_API_KEY"))
    RK_TRY(add_key(keys, key, "RINGKEEP_API_KEY"));
  return keys;
}

}  // namespace ringkeep::cli
