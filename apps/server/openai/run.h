// A request for text on its way: the engine's updates in, an answer out, streamed or whole.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/openai/app.h"
#include "server/openai/reply.h"

namespace ringkeep::openai {

// What a route makes of a request. Choices are in order: all replies to the first prompt first.
struct RunPlan {
  std::shared_ptr<const Model> model;
  std::string name;         // of the model or the adapter, as it is told
  std::string fingerprint;  // of both
  ExchangePointer exchange;
  std::chrono::steady_clock::time_point arrived;
  std::string prefix;        // of ids
  std::string object;        // of the whole answer
  std::string chunk_object;  // of a streamed piece
  std::string prompt_param;  // that an error of the prompt names
  bool stream = false;
  bool include_usage = false;
  bool usage_in_chunks = false;
  std::vector<engine::Request> requests;  // by choice
  std::vector<std::unique_ptr<ChoiceShape>> shapes;
  int64_t n = 1;        // choices of a prompt that are told
  int64_t replies = 1;  // that are made of it; more with best_of
  size_t stops = 0;     // of the requests' stop strings, the first that the fields asked for
};

// The requests of one prompt: all of them share it, with seeds that count up.
void add_requests(RunPlan& plan, const engine::Request& base, const GenerationFields& fields);
// What the fields say about how text is made.
engine::Request base_request(const GenerationFields& fields);

// Hands the requests in, and answers. Returns at once.
void start_run(App& app, RunPlan plan);

}  // namespace ringkeep::openai
