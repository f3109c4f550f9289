// What an Engine holds. Private to its files: engine.cpp (loading, caches, logits), engine_step.cpp
// (requests and steps), engine_seats.cpp (sequences for requests), engine_cache_files.cpp.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "engine/admission.h"
#include "engine/engine.h"
#include "engine/fingerprint.h"
#include "engine/generation.h"
#include "engine/prefix_cache.h"
#include "engine/saved_state.h"
#include "engine/scheduler.h"
#include "models/model.h"
#include "weights/adapter.h"

namespace ringkeep::engine {

struct Engine::State final : Seats {
  State(checkpoint::Checkpoint checkpoint, const kernels::Ops& ops, kernels::Device& device)
      : ops(ops), checkpoint(std::move(checkpoint)), exec(device) {}

  const kernels::Ops& ops;
  checkpoint::Checkpoint checkpoint;
  kernels::Exec exec;
  EngineOptions options;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::string tokenizer_sum;  // for saved caches
  std::unique_ptr<models::Model> model;
  std::vector<weights::Adapter> adapters;  // of options.adapters
  std::vector<AdapterInfo> adapter_infos;
  std::unique_ptr<kv::Store> store;
  std::unique_ptr<PrefixCache> prefixes;               // null: off
  std::shared_ptr<const weights::KeyBalance> balance;  // of the store's plan
  std::optional<Admission> admission;                  // to the store
  int64_t max_rows = 0;
  int64_t next_id = 1;
  std::list<Generation> generations;  // in order of arrival
  std::map<int64_t, GenerationStats> finished;
  ServingStats counts;
  Buffer logits;  // [max_logit_rows, vocab] float32
  std::function<void()> heartbeat;

  // --- adapters
  // Opens and checks the adapters of `options`, before weights are read.
  static Result<std::vector<weights::AdapterSource>> open_adapters(const EngineOptions& options,
                                                                   const ModelConfig& config);
  Status load_adapters(std::span<const weights::AdapterSource> sources);
  const weights::Adapter* adapter(int index) const {
    return index < 0 ? nullptr : &adapters[static_cast<size_t>(index)];
  }
  // What rows must agree in beside tokens to be the same: `salt` and the adapter.
  uint64_t salt_with(int adapter, uint64_t salt) const;

  // --- caches
  Result<weights::KeyBalance> balance_for(const CacheFlags& flags, const kv::KvPlan& plan) const;
  // A new, empty cache of that plan with its K balance. On failure the old one stays.
  Status install(const CacheFlags& flags, const kv::KvPlan& plan);
  // The model's forward with this engine's settings, which a lane may have changed.
  Status forward(const models::Batch& batch);
  int64_t context_limit() const { return store->plan().max_length(); }
  CacheAccess access() { return {*store, ops, exec}; }
  Fingerprint fingerprint();

  // --- steps
  // Rows of one generation in a step.
  struct Part {
    Generation* generation;
    int64_t rows;
    bool sample;  // the last row's logits choose the next token
  };
  std::vector<Part> plan_step();
  // No token is asked for and nothing of the prompt either, nor by the one that it shares it with,
  // so that all replies to a prompt end after what is told of it.
  bool ends_unrun(const Generation& generation);
  // Runs, commits and samples. When the rows fail together, each generation's run alone, so that
  // only those that are to blame fail.
  void run(std::span<const Part> parts, std::vector<Event>& events);
  Status forward(std::span<const Part> parts);
  void sample(std::span<const std::pair<Generation*, int64_t>> rows, std::vector<Event>& events);
  Event accept(Generation& generation, Result<Sampled> sampled);
  std::string text_of(Generation& generation, int32_t token) const;  // what becomes certain with it
  // Log-probabilities of the prompt's tokens that follow rows [row, row + rows) of the step, which
  // are the generation's last in the cache.
  Status score_prompt(Generation& generation, int64_t row, int64_t rows);
  // What the prefix cache knows the first `count` rows of the generation by.
  std::vector<int32_t> rows_of(const Generation& generation, size_t count) const;
  // Keeps the present state of the generation's sequence for requests that begin alike.
  void keep(const Generation& generation);
  void finish(Generation& generation);

  // --- sequences for requests
  void admit();
  Generation* find(int64_t id);
  // The request whose prompt rows this one is to take over, while that is possible.
  Generation* leader_of(const Generation& generation);
  // The most tokens at the beginning of this one's that a running prefill will leave a snapshot of.
  int64_t prefix_to_come(const Generation& generation) const;
  std::vector<int64_t> partings(const Generation& generation) const;
  void plan_snapshots(Generation& generation);
  void begin(Generation& generation);  // counts it, the first time
  // Sequences for those that take over the rows of a prompt that has just been computed.
  std::vector<Generation*> fork_followers(Generation& leader);

  bool waits(const Ticket& ticket) override;
  bool open(Ticket& ticket) override;
  void close(Ticket& ticket, bool set_back) override;
  bool shares_tail(const Ticket& ticket) const override;
  std::vector<int64_t> owned() const override;
};

}  // namespace ringkeep::engine
