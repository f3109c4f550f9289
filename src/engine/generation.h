// One generation in progress: its tokens, its sequence in the cache, and what it has shown so far.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/admission.h"
#include "engine/engine.h"
#include "text/stream_decoder.h"

namespace ringkeep::engine {

constexpr int32_t kUnknownToken = -1;  // of a cache that came without its tokens

struct Generation {
  // `limit`: tokens that it may come to.
  Generation(int64_t id, Request request, int64_t limit)
      : id(id),
        tokens(request.tokens),
        prompt_size(static_cast<int64_t>(tokens.size())),
        ticket{.id = id, .known = prompt_size, .limit = limit},
        sampler(request.sampling),
        decoder(request.stop),
        request(std::move(request)) {
    stats.prompt_tokens = prompt_size;
  }

  int64_t id;
  std::vector<int32_t> tokens;  // prompt, then output
  int64_t prompt_size;
  Ticket ticket;                   // what of it is in the cache; kept up to date with `tokens`
  kv::SequenceId sequence = -1;    // -1: waits, or runs without one yet
  int64_t leader = 0;              // runs, and takes over this one's rows at the end of its prompt
  bool begun = false;              // counted among those that have begun
  std::optional<int64_t> found;    // tokens that the prefix cache held when it began to wait
  std::vector<int64_t> snapshots;  // lengths at which one is to be kept, descending
  std::vector<uint64_t> allowed;   // [ceil(vocab / 64)] what may follow; empty: anything
  std::vector<Sampled> prompt_logprobs;  // of tokens 1, 2, ... so far, until they are told
  Sampler sampler;
  text::StreamDecoder decoder;
  GenerationStats stats;
  Request request;

  // Most rows of the next step, so that it ends where a snapshot is due, and with the prompt.
  int64_t rows_of_a_kind() const {
    const int64_t rows = snapshots.empty() ? ticket.pending() : snapshots.back() - ticket.cached;
    return prefilling() ? std::min(rows, prompt_size - ticket.cached) : rows;
  }
  bool prefilling() const { return ticket.cached < prompt_size; }
  void add(int32_t token) {
    tokens.push_back(token);
    ++ticket.known;
    ++stats.generated_tokens;
  }
  std::span<const int32_t> prompt() const {
    return std::span(tokens).first(static_cast<size_t>(prompt_size));
  }
  std::span<const int32_t> output() const {
    return std::span(tokens).subspan(static_cast<size_t>(prompt_size));
  }
};

}  // namespace ringkeep::engine
