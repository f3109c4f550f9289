// One generation in progress: its tokens, its sequence in the cache, and what it has shown so far.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "text/stream_decoder.h"

namespace ringkeep::engine {

constexpr int32_t kUnknownToken = -1;  // of a cache that came without its tokens

struct Generation {
  Generation(int64_t id, Request request)
      : id(id),
        tokens(request.tokens),
        prompt_size(static_cast<int64_t>(tokens.size())),
        sampler(request.sampling),
        decoder(request.stop),
        request(std::move(request)) {
    stats.prompt_tokens = prompt_size;
  }

  int64_t id;
  std::vector<int32_t> tokens;  // prompt, then output
  int64_t prompt_size;
  int64_t cached = 0;              // tokens whose rows are committed
  kv::SequenceId sequence = -1;    // -1: waiting for a free sequence
  std::vector<int64_t> snapshots;  // lengths at which one is to be kept, descending
  Sampler sampler;
  text::StreamDecoder decoder;
  GenerationStats stats;
  Request request;

  // Most rows of the next step, so that it ends where a snapshot is due.
  int64_t rows_to_snapshot() const {
    return snapshots.empty() ? pending() : snapshots.back() - cached;
  }
  int64_t pending() const { return static_cast<int64_t>(tokens.size()) - cached; }
  bool prefilling() const { return cached < prompt_size; }
  std::span<const int32_t> prompt() const {
    return std::span(tokens).first(static_cast<size_t>(prompt_size));
  }
  std::span<const int32_t> output() const {
    return std::span(tokens).subspan(static_cast<size_t>(prompt_size));
  }
};

}  // namespace ringkeep::engine
