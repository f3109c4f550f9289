// A further cache over the weights of a loaded engine. Several lanes may be open at once and take
// turns, step by step: so caches are compared without a copy of the weights for each of them.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "engine/engine.h"

namespace ringkeep::engine {

class Lane {
 public:
  // Plans and allocates the cache. `exact`: float32 activations in this lane's weight products.
  // The engine must outlive the lane, and was loaded for steps at least as large. Errors: refused;
  // usage; runtime without memory.
  static Result<std::unique_ptr<Lane>> create(Engine& engine, const CacheFlags& cache, bool exact);

  const kv::KvPlan& plan() const { return store_->plan(); }
  Result<kv::SequenceId> open() { return store_->open(); }
  Result<kv::SequenceId> fork(kv::SequenceId from) { return store_->fork(from); }
  void close(kv::SequenceId sequence) { store_->close(sequence); }

  // Logits [rows, vocab] of the rows that begin at `first`, counted in the tokens of the call.
  using Logits = std::function<void(int64_t first, int64_t rows, const float* logits)>;
  // Adds tokens to a sequence, many as a prompt and one as if generated; the logits of the last
  // `wanted` of them go to `logits`, in order, some rows at a time. After an error the sequence
  // holds the steps that went well.
  Status extend(kv::SequenceId sequence, std::span<const int32_t> tokens, int64_t wanted,
                const Logits& logits);

  // Adds `count` rows of noise in place of keys and values, to measure at a depth without the time
  // that computing them takes. Errors as of extend().
  Status fill(kv::SequenceId sequence, int64_t count);

 private:
  Lane(Engine& engine, bool exact) : engine_(engine), exact_(exact) {}

  Engine& engine_;
  bool exact_;
  std::shared_ptr<const weights::KeyBalance> balance_;
  std::unique_ptr<kv::Store> store_;
  Buffer logits_;  // [max_logit_rows, vocab]
};

}  // namespace ringkeep::engine
