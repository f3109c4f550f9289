// The flags of `serve`.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "server/http/log.h"
#include "server/http/options.h"

namespace ringkeep::cli {

struct ServeOptions {
  ModelOptions model;
  CacheFlags cache;
  RuntimeOptions runtime;
  engine::SamplingParams sampling;
  int64_t max_tokens = -2;  // -2: not given
  int64_t reserve_tokens = 1024;
  std::string host = "127.0.0.1";
  int port = 8080;
  std::vector<std::string> names;
  std::string chat_template;  // file or name
  std::string tool_parser = "auto";
  std::string reasoning_parser = "auto";
  std::vector<std::string> api_keys;
  std::string api_key_file;
  bool allow_unauthenticated = false;
  std::vector<std::string> cors_origins;
  int64_t max_queue = 64;
  http::Limits limits;
  double drain_timeout = 30;
  double stall_timeout = 4.5;
  std::string log_format = "text";
  bool quiet = false;
};

void add_serve_options(CLI::App& app, ServeOptions& options);

// All keys: flags, file, RINGKEEP_API_KEY. Errors (usage, input): one that no header can carry.
Result<http::ApiKeys> api_keys(const ServeOptions& options);

}  // namespace ringkeep::cli
