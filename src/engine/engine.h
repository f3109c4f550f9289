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
#include "models/key_statistics.h"
#include "text/token_constraint.h"
#include "text/tokenizer.h"
#include "weights/balance.h"

namespace ringkeep::models {
class Model;
}
namespace ringkeep::weights {
class Adapter;
}

namespace ringkeep::engine {

// A LoRA adapter (docs/adapters.md).
struct AdapterOption {
  std::string name;
  std::string path;    // a folder, or org/name in the local Hugging Face cache
  float scale = 1.0f;  // multiplies what it adds
};

struct EngineOptions {
  CacheFlags cache;
  bool exact = false;   // float32 activations in the weight products
  int weight_bits = 0;  // quantize dense weights while loading; 0: as they are
  int weight_group = 64;
  // Bytes that packed experts take in memory, at most; the others stay in the file. SIZE_MAX: all
  // are held; nothing: as weights::expert_memory() says.
  std::optional<size_t> expert_memory;
  int64_t max_queue = 0;  // requests that wait beyond those there is place for; 0: any number
  int64_t reserve_tokens = 1024;  // pages are set aside for a reply's next so many tokens, or fewer
  std::vector<AdapterOption> adapters;
  // Which of them everything goes through that does not say: requests, logits, lanes, saved caches.
  int adapter = -1;  // -1: none
};

// Control tokens in a reply's text: nothing, as they are spelled, or that between two bytes which
// no text has (text::marked_control).
enum class ControlText { hidden, spelled, marked };

struct Request {
  std::vector<int32_t> tokens;  // the prompt, BOS included where the model wants one
  SamplingParams sampling;
  int64_t max_tokens = -1;           // < 0: until the context ends
  std::vector<std::string> stop;     // stop strings
  std::vector<int32_t> stop_tokens;  // further ids that end the reply and are not shown
  bool ignore_eos = false;           // a constraint's end of generation ends the reply nevertheless
  ControlText control = ControlText::hidden;
  int top_logprobs = -1;
  // Log-probabilities of the prompt's tokens and of so many others in their place; < 0: none. The
  // whole prompt is run for them, whatever is known of it.
  int prompt_logprobs = -1;
  std::optional<int> adapter;  // of EngineOptions::adapters; -1: none; nothing: the engine's
  // Prefix reuse (docs/kv-cache.md): further token counts within the prompt to keep a snapshot of,
  // the ends of messages; and what else but tokens and adapter a prefix must agree in (images).
  std::vector<int64_t> snapshot_at;
  uint64_t cache_salt = 0;
  bool reuse_prefix = true;  // false: the whole prompt is run, whatever is known
  // What the reply may be (structured output); null: anything. Not shared with another request.
  std::shared_ptr<text::TokenConstraint> constraint;
  // An earlier request with the same tokens, whose prompt rows are shared (n > 1); 0: none. Gone or
  // set back, it is no harm: the prompt is found in the prefix cache or run again.
  int64_t fork_of = 0;
  // Goes on from a cache whose tokens are not known (LoadedCache); `tokens` follow it. The
  // repetition penalty, which looks at the whole prompt, is refused.
  std::optional<kv::SnapshotId> after;
};

// A request's error where there is no memory for what it needs (runtime).
Error out_of_memory();

enum class FinishReason { none, stop, length };
const char* finish_reason_name(FinishReason reason);  // "", "stop", "length"

// What a step produced for one generation.
struct Event {
  int64_t id = 0;
  std::string text;               // whole UTF-8 characters; a stop string never appears
  std::vector<int32_t> tokens;    // accepted ids
  std::vector<Sampled> logprobs;  // when asked for
  // With the first event, when asked for: of the prompt's tokens after the first.
  std::optional<std::vector<Sampled>> prompt_logprobs;
  FinishReason finish = FinishReason::none;
  std::optional<size_t> stop;  // of Request::stop, the one that ended the reply
  std::optional<Error> error;  // this request failed; others go on
};

// A cache read from a file.
struct LoadedCache {
  int64_t length = 0;           // tokens
  std::vector<int32_t> tokens;  // empty: not known (mlx-lm's files hold none)
  // Without tokens: what Request::after takes. With them the prefix cache finds it by itself.
  std::optional<kv::SnapshotId> snapshot;
  std::string note;  // what was changed on the way in, for the user; or empty
};

struct GenerationStats {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, reused from the prefix cache or a file
  int64_t generated_tokens = 0;
  double prefill_seconds = 0.0;
  double decode_seconds = 0.0;
};

// Experts that are not all in memory (EngineOptions::expert_memory). Counts are of all steps so
// far; an expert counts in each step of each layer that has rows for it.
struct ExpertUsage {
  size_t memory_bytes = 0;   // for packed experts, at most
  int64_t hits = 0;          // experts that were held when a step chose them
  int64_t loads = 0;         // and those that were packed from the file
  int64_t loaded_bytes = 0;  // packed bytes of these
};

// Counts since the engine was loaded, apart from the first two.
struct ServingStats {
  int64_t running = 0;  // requests in the cache
  int64_t waiting = 0;  // for a place, those set back included
  int64_t preemptions = 0;
  int64_t steps = 0;
  int64_t prompt_tokens = 0;  // of requests that began
  int64_t cached_tokens = 0;  // of those, not run: from the prefix cache, a file or another request
  int64_t generated_tokens = 0;
  int64_t prefix_hits = 0;  // requests with cached tokens
};

// A request as the cache holds it.
struct SequenceView {
  int64_t id = 0;
  bool running = false;  // false: it waits for a place
  int64_t length = 0;    // tokens in the cache
  GenerationStats stats;
  std::vector<std::vector<int32_t>> pages;  // [groups of the plan] physical pages, oldest first
};

// An adapter that is loaded.
struct AdapterInfo {
  AdapterOption option;
  std::string sha256;  // of its files and the scale
  size_t bytes = 0;    // of its factors
};

class Engine {
 public:
  // Plans the cache (all refusals, kind `refused`), loads the weights, allocates.
  static Result<std::unique_ptr<Engine>> load(checkpoint::Checkpoint checkpoint,
                                              const EngineOptions& options, const kernels::Ops& ops,
                                              kernels::Device& device);
  ~Engine();
  // Another cache for the loaded weights; whatever was cached is dropped. Errors: as of load, and
  // usage while generations run or for larger steps than load was given. A failure changes nothing.
  Status set_cache(const CacheFlags& flags);

  const ModelConfig& config() const;
  const kv::KvPlan& plan() const;
  const kv::Store& store() const;
  const text::Tokenizer* tokenizer() const;         // null when the checkpoint has none
  size_t weight_bytes() const;                      // packed weights
  size_t decode_weight_bytes() const;               // weight bytes that one decode step reads
  size_t expert_bytes() const;                      // packed weights in matrices of experts
  size_t scratch_bytes() const;                     // activations and kernel scratch
  std::optional<ExpertUsage> expert_usage() const;  // nothing: all experts are in memory
  const std::vector<AdapterInfo>& adapters() const;
  size_t adapter_bytes() const;  // factors of all adapters

  // Adds a generation. Errors: usage (empty prompt, bad sampling, fork_of), input (prompt longer
  // than ctx), busy (the queue is full).
  Result<int64_t> submit(Request request);
  // One step over all running generations: a prefill chunk or one decode row each.
  std::vector<Event> step();
  bool idle() const;
  void cancel(int64_t id);
  GenerationStats stats(int64_t id) const;  // of a running generation or the last finished ones
  ServingStats serving() const;
  std::vector<SequenceView> sequences() const;  // in order of arrival
  // Called in step(), on its thread, at least once a layer and constraint: a slow step is not a
  // dead engine.
  void set_heartbeat(std::function<void()> heartbeat);

  // Measures the queries and keys of every row that runs from now on (calibration), as they enter
  // the cache: with an f16 or affine cache, those of the model. Null: no more.
  void observe_keys(models::KeyStatistics* statistics);
  const checkpoint::Checkpoint& checkpoint() const;
  const weights::KeyBalance& weight_balance() const;  // without data; see DecoderWeights
  // Saves the longest kept state that `tokens` begin with, or reads such a file, or one of mlx-lm
  // (docs/saved-caches.md). Both need a prefix cache (CacheFlags::prefix_cache_bytes) and a free
  // sequence. Errors: input (no valid file), refused (made by another model or with other cache
  // flags, naming the field; or larger than the prefix cache), runtime (cannot write).
  Status save_cache(std::span<const int32_t> tokens, const std::string& path);
  Result<LoadedCache> load_cache(const std::string& path);

  // Teacher-forced logits of positions [begin, end) of `tokens`, in prefill steps of `chunk` rows.
  // row(position, logits [vocab]) is called in order. `stop` is asked before each step, and ends
  // the run early, without an error.
  Status logits(std::span<const int32_t> tokens, int64_t chunk, int64_t begin, int64_t end,
                const std::function<void(int64_t position, std::span<const float> logits)>& row,
                const std::function<bool()>& stop = {});

  // What a lane (lane.h) runs with.
  models::Model& model();
  kernels::Exec& exec();
  const kernels::Ops& ops() const;
  int64_t max_step_rows() const;  // that activations were made for
  // The adapter of rows that do not say; null: none.
  const weights::Adapter* adapter() const;
  // K balance of the caches that `flags` plan. Errors: of --kv-calibration's file.
  Result<weights::KeyBalance> key_balance(const CacheFlags& flags, const kv::KvPlan& plan) const;

 private:
  Engine();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringkeep::engine
