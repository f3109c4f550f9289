// The engine: a loaded model, its cache, and generations in progress. One thread drives it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "config/cache_flags.h"
#include "engine/sampling.h"
#include "kernels/api/ops.h"
#include "kv/store.h"
#include "text/tokenizer.h"

namespace ringkeep::engine {

struct EngineOptions {
  CacheFlags cache;
  bool exact = false;   // float32 activations in the weight products
  int weight_bits = 0;  // quantize dense weights while loading; 0: as they are
  int weight_group = 64;
};

struct Request {
  std::vector<int32_t> tokens;  // the prompt, BOS included where the model wants one
  SamplingParams sampling;
  int64_t max_tokens = -1;        // < 0: until the context ends
  std::vector<std::string> stop;  // stop strings
  bool ignore_eos = false;
  int top_logprobs = -1;
};

enum class FinishReason { none, stop, length };
const char* finish_reason_name(FinishReason reason);  // "", "stop", "length"

// What a step produced for one generation.
struct Event {
  int64_t id = 0;
  std::string text;               // whole UTF-8 characters; a stop string never appears
  std::vector<int32_t> tokens;    // accepted ids
  std::vector<Sampled> logprobs;  // when asked for
  FinishReason finish = FinishReason::none;
  std::optional<Error> error;  // this request failed; others go on
};

struct GenerationStats {
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  double prefill_seconds = 0.0;
  double decode_seconds = 0.0;
};

class Engine {
 public:
  // Plans the cache (all refusals, kind `refused`), loads the weights, allocates.
  static Result<std::unique_ptr<Engine>> load(checkpoint::Checkpoint checkpoint,
                                              const EngineOptions& options, const kernels::Ops& ops,
                                              kernels::Device& device);
  ~Engine();

  const ModelConfig& config() const;
  const kv::KvPlan& plan() const;
  const kv::Store& store() const;
  const text::Tokenizer* tokenizer() const;  // null when the checkpoint has none
  size_t weight_bytes() const;               // packed weights
  size_t decode_weight_bytes() const;        // weight bytes that one decode step reads
  size_t scratch_bytes() const;              // activations and kernel scratch

  // Adds a generation. Errors: usage (empty prompt, bad sampling), input (prompt longer than ctx).
  Result<int64_t> submit(Request request);
  // One step over all running generations: a prefill chunk or one decode row each.
  std::vector<Event> step();
  bool idle() const;
  void cancel(int64_t id);
  GenerationStats stats(int64_t id) const;  // of a running generation or the last finished ones

  // Teacher-forced logits of positions [begin, end) of `tokens`, in prefill steps of `chunk` rows.
  // row(position, logits [vocab]) is called in order. `stop` is asked before each step, and ends
  // the run early, without an error.
  Status logits(std::span<const int32_t> tokens, int64_t chunk, int64_t begin, int64_t end,
                const std::function<void(int64_t position, std::span<const float> logits)>& row,
                const std::function<bool()>& stop = {});

 private:
  Engine();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringkeep::engine
